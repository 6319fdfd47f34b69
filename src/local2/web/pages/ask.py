"""Ask: what a question finds for any user, session and moment, why, and why not something else."""

import shlex
from collections.abc import Mapping, Sequence
from datetime import date, timedelta
from functools import partial
from typing import Any, get_args

import msgspec
from nicegui import ui
from nicegui.element import Element
from nicegui.events import GenericEventArguments, ValueChangeEventArguments

from local2.client.memory import Memory
from local2.protocol.browsing import Browse
from local2.protocol.envelope import utc_now
from local2.protocol.explaining import Explain, Explained, ExplainedMemory
from local2.protocol.memories import Scope
from local2.protocol.memory_tools import RECALL, Explanation, Recall
from local2.protocol.payloads import Json
from local2.protocol.subjects import tool_request
from local2.web.callers import SESSION_HEADER, USER_HEADER
from local2.web.pages.frame import (
    Disclosure,
    Viewer,
    dialog,
    empty,
    facts,
    opener,
    section,
    stay,
    tag,
    text,
    when,
)
from local2.web.pages.memory_drawer import open_memory, readable

CONSIDERED = 20
"""Number of matching memories that are shown, in the answer or not."""
MAX_NAMED = 5
"""Maximum number of memories that are found by words, to be explained."""
DEFAULT_TOP_K = 5
LEAST = {0.0: "any", 0.25: "¼ of the best", 0.5: "½ of the best", 0.75: "¾ of the best"}
"""Least scores that can be chosen; an address may name another one."""
NUMBERS = {1, 3, 5, 10, 20}
"""Numbers of results that can be chosen, likewise."""
SECOND = "2"
"""Behind the names of the second setting in the address."""
HUES = 24
"""Number of colours of the parts of scores; see `.part-0` in page.css."""
MIN_DAYS = 30
"""Minimum number of days that the slider reaches back."""
OUTCOMES = {
    "beyond_top_k": "no place left",
    "below_min_relevance": "too far below",
    "repeated": "said already",
    "not_visible": "not visible",
    "not_a_candidate": "no candidate",
}
"""Words for outcomes that are none."""


PARTS = {
    "meaning": "how near its meaning is to the question's, compared with the other memories",
    "words": "how many of the question's words it has, rare ones counting more",
    "coverage": "how much of the question its words cover, with those of messages beside it",
    "around": "what the messages before and after it have of the three above",
    "session": "how much of the question its whole conversation covers",
    "session_best": "what the best message of its conversation has",
    "speaker": "the question names who said it",
    "firsthand": "people speak about themselves in it",
    "timed": "it names a time",
    "density": "how much of it is information",
    "wish": "it tells an assistant what to do always or never",
    "recent": "it is from one of the latest conversations, which the question continues",
    "time": "it is from the time that the question names",
    "topic": "the question has its key",
    "related": "it is related to something that matches better",
    "importance": "how important it was said to be",
    "age": "new memories gain a little, old ones lose a little",
    "feedback": "how the answer beside it was rated",
    "echo": "it repeats what another memory says, which ranks above it",
    "nod": "it says nothing of its own",
    "reply": "it is this question, asked before: its reply ranks above it",
    "standing": "a fact with a key answers before what was said in passing",
    "named": "what matches names something that this memory is about",
    "update": "it outdates another one, or is outdated by it",
}
"""The parts of a score, which `docs/recall.md` has with their numbers, as people say them."""


class Setting(msgspec.Struct, kw_only=True):
    """How a question is asked; two settings are compared side by side.

    `as_of`: the day up to the end of which the memory is looked at.
    """

    scope: Scope = "any"
    top_k: int = DEFAULT_TOP_K
    as_of: date | None = None
    min_relevance: float = 0.0
    rerank: bool = True

    @classmethod
    def read(cls, query: Mapping[str, str], suffix: str) -> "Setting":
        """Read a setting from an address; what it does not know stays as it is by default."""
        named = {
            name: query[f"{name}{suffix}"]
            for name in cls.__struct_fields__
            if f"{name}{suffix}" in query
        }
        try:
            return msgspec.convert(named, cls, strict=False)
        except msgspec.ValidationError:
            return cls()

    def address(self, suffix: str) -> dict[str, str]:
        """The parameters of the address that differ from the defaults."""
        return {
            f"{name}{suffix}": str(value)
            for name, value in msgspec.structs.asdict(self).items()
            if value != getattr(Setting(), name)
        }

    def recall(self, question: str) -> Recall:
        """The question in this setting, as the tool takes it."""
        return Recall(
            query=question,
            top_k=self.top_k,
            scope=self.scope,
            as_of=self.as_of.isoformat() if self.as_of else None,
            min_relevance=self.min_relevance,
            enable_rerank=self.rerank,
        )


async def show(viewer: Viewer) -> None:
    await AskPage(viewer).show()
    viewer.on_return = stay


class AskPage:
    """One viewer's question, in one setting or in two."""

    def __init__(self, viewer: Viewer) -> None:
        query = viewer.query
        self._viewer = viewer
        self._question = query.get("q", "")
        self._user = query.get("user") or viewer.caller.user or ""
        self._session = query.get("session", "")
        self._settings = [Setting.read(query, "")]
        if "compare" in query:
            self._settings.append(Setting.read(query, SECOND))
        self._days = MIN_DAYS

    async def show(self) -> None:
        overview = await self._viewer.memory.overview(everybody=self._viewer.may("browse_all"))
        if overview.sessions:
            first = min(session.first for session in overview.sessions)
            self._days = max(MIN_DAYS, (utc_now() - first).days + 1)
        with ui.element("div").classes("filters"):
            question = ui.input("Question", value=self._question).props(
                "outlined dense data-search"
            )
            question.on_value_change(partial(self._set, "_question"))
            question.on("keydown.enter", self._ask)
            if not self._viewer.has_accounts:
                users = [owner.name for owner in overview.users if owner.name]
                user = ui.input("User", value=self._user, autocomplete=users)
                user.props("outlined dense").on_value_change(partial(self._set, "_user"))
            sessions = [session.session_id for session in overview.sessions]
            session = ui.input("Session", value=self._session, autocomplete=sessions)
            session.props("outlined dense clearable")
            session.on_value_change(partial(self._set, "_session"))
        with ui.element("div").classes("row-of"):
            ui.button("Ask", icon="o_search", on_click=self._ask)
            ui.button("Compare", icon="o_compare", on_click=self._compare).props("outline")
            ui.button("Copy as …", icon="o_content_copy", on_click=self._show_copies).props(
                "outline"
            )
        self._columns = ui.element("div").classes("answer-columns")
        self._nothing = ui.element("div")
        self._add_columns()
        await self._ask()

    def _set(self, name: str, event: ValueChangeEventArguments[Any]) -> None:
        setattr(self, name, (event.value or "").strip())

    async def _compare(self) -> None:
        if len(self._settings) == 1:
            self._settings.append(msgspec.structs.replace(self._settings[0]))
        else:
            self._settings.pop()
        self._add_columns()
        await self._ask()

    def _add_columns(self) -> None:
        """Add a place for the answer in each setting, which can be changed above it."""
        self._columns.clear()
        self._places: list[Element] = []
        with self._columns:
            for setting in self._settings:
                with ui.element("div").classes("answer-column"):
                    self._add_setting(setting)
                    self._places.append(
                        ui.element("div").classes("page-content").props("data-rows")
                    )

    @property
    def _asker(self) -> Viewer:
        """The viewer as the chosen user."""
        is_chosen = self._user and not self._viewer.has_accounts
        return self._viewer.looking_as(self._user) if is_chosen else self._viewer

    @property
    def _memory(self) -> Memory:
        """The memory as the chosen user sees it in the chosen session."""
        return self._asker.memory.of(session=self._session or None)

    async def _ask(self) -> None:
        """Ask in every setting, and show the answers side by side."""
        is_compared = len(self._settings) > 1
        self._viewer.set_address(
            q=self._question,
            user=self._user if self._user != (self._viewer.caller.user or "") else None,
            session=self._session,
            compare="1" if is_compared else None,
            **self._settings[0].address(""),
            **(self._settings[1].address(SECOND) if is_compared else {}),
        )
        self._asking = asking = object()
        answers = []
        if self._question:
            for setting in self._settings:
                asked = Explain(recall=setting.recall(self._question), considered=CONSIDERED)
                answers.append(await self._memory.explain(asked))
        if asking is not self._asking:  # something else was asked meanwhile
            return
        for number, (setting, place) in enumerate(zip(self._settings, self._places, strict=True)):
            place.clear()
            if answers:
                with place:
                    other = answers[1 - number] if is_compared else None
                    self._show_answer(setting, answers[number], other)
        self._nothing.clear()
        if not self._question:
            with self._nothing:
                empty(
                    "o_manage_search",
                    "Ask as an agent would.",
                    "Each memory that is found shows what its score is made of.",
                )

    def _add_setting(self, setting: Setting) -> None:
        async def choose(name: str, event: ValueChangeEventArguments[Any]) -> None:
            setattr(setting, name, event.value)
            await self._ask()

        with ui.element("div").classes("setting"):
            scopes = {scope: readable(scope) for scope in get_args(Scope)}
            scope = ui.select(scopes, value=setting.scope, label="From").props("outlined dense")
            scope.on_value_change(partial(choose, "scope"))
            numbers = sorted(NUMBERS | {setting.top_k})
            top_k = ui.select(numbers, value=setting.top_k, label="Results, at most")
            top_k.props("outlined dense")
            top_k.on_value_change(partial(choose, "top_k"))
            share = setting.min_relevance
            shares = LEAST if share in LEAST else {**LEAST, share: f"{share:g} of the best"}
            least = ui.select(shares, value=share, label="Score, at least")
            least.props("outlined dense")
            least.on_value_change(partial(choose, "min_relevance"))
            reranked = ui.switch("Reranker", value=setting.rerank)
            reranked.on_value_change(partial(choose, "rerank"))
            # The moment at which the memory is looked at.
            today = utc_now().date()
            back = 0
            if setting.as_of:
                back = min(max((today - setting.as_of).days, 0), self._days)
            with ui.element("div").classes("moment"):
                said = text("span", _moment_said(setting.as_of)).classes("quiet")
                said.props("aria-live=polite")
                # The browser's own: the focus of Quasar's has neither a name nor a value.
                slider = Element("input").props('type=range aria-label="As of this day"')
                slider.props(f"min={-self._days} max=0 defaultValue={-back}")

                def look(event: GenericEventArguments) -> None:
                    days = -int(event.args)
                    setting.as_of = today - timedelta(days=days) if days else None
                    said.text = _moment_said(setting.as_of)

                slider.on("input", look, js_handler="(event) => emit(event.target.value)")
                slider.on("change", self._ask)

    def _show_answer(self, setting: Setting, answer: Explained, other: Explained | None) -> None:
        found = [memory for memory in answer.memories if memory.place is not None]
        found.sort(key=lambda memory: memory.place or 0)
        missed = [memory for memory in answer.memories if memory.place is None]
        explained = (memory.explanation for memory in answer.memories)
        raising = (
            sum(share for share in explanation.shares.values() if share > 0)
            for explanation in explained
            if explanation is not None
        )
        scale = max(raising, default=0.0)  # what raises the scores makes the bars
        places = None
        if other is not None:
            places = {memory.id: memory.place for memory in other.memories}
        if answer.degraded:
            text("p", f"The search was incomplete: {answer.reason}").classes("banner")
        hint = f"{answer.matching:,} of {answer.candidates:,} candidates match."
        with section("In the answer", hint):
            if not found:
                text("p", "Nothing is found in this setting.").classes("quiet")
            self._show_memories(found, scale, places)
            met = {
                name
                for memory in answer.memories
                if memory.explanation is not None
                for name, share in memory.explanation.shares.items()
                if share
            }
            if met:
                with Disclosure("What the parts of a score are").content:
                    facts({name: said for name, said in PARTS.items() if name in met})
        if missed:
            with section("Matched as well", "The best of those that are not in the answer."):
                self._show_memories(missed, scale, places)
        with section("Why not this one?", "Any memory, by its id or by words that it has."):
            entry = ui.input("Id or words").props("outlined dense clearable")
            place = ui.element("div").classes("page-content")
            entry.on("keydown.enter", partial(self._explain_others, setting, entry, place, scale))

    def _show_memories(
        self,
        memories: Sequence[ExplainedMemory],
        scale: float,
        places: Mapping[str, int | None] | None = None,
    ) -> None:
        with ui.element("ol").classes("answers"):
            for memory in memories:
                with ui.element("li").props("data-place"):
                    self._show_memory(memory, scale, places)

    def _show_memory(
        self, memory: ExplainedMemory, scale: float, places: Mapping[str, int | None] | None
    ) -> None:
        with ui.element("div").classes("row-of"):
            if memory.place is not None:
                text("strong", f"{memory.place}.")
            else:
                tag(OUTCOMES.get(memory.outcome, readable(memory.outcome)))
            if memory.score is not None:
                text("span", f"{memory.score:.2f}").props('title="The score it was ranked by"')
            if memory.reranked is not None:
                tag(f"reranked {memory.reranked:.2f}", "accent")
            if places is not None and places.get(memory.id) != memory.place:
                there = places.get(memory.id)
                tag(f"{there}. on the other side" if there else "not on the other side", "warning")
            if memory.event_time is not None:
                with ui.element("span").classes("quiet"):
                    when(memory.event_time)
            if label := memory.topic or memory.label:
                text("span", label).classes("mono quiet")
        if memory.content:
            opened = partial(open_memory, self._asker, memory.id, self._ask)
            opener(memory.content, "two-lines", opened)
        if memory.explanation is not None:
            _show_parts(memory.explanation, scale)
        if memory.place is None:
            text("p", memory.reasons()).classes("quiet")

    async def _explain_others(
        self, setting: Setting, entry: ui.input, place: Element, scale: float
    ) -> None:
        """Explain the memory with the typed id, or those that have the typed words."""
        typed = (entry.value or "").strip()
        if not typed:
            return
        memory, recall = self._memory, setting.recall(self._question)

        async def explain(id_: str) -> ExplainedMemory | None:
            asked = Explain(recall=recall, id=id_, considered=0)
            return (await memory.explain(asked)).asked

        explained = [await explain(typed)]
        if explained[0] is None or explained[0].outcome == "not_visible":
            named = await memory.browse(
                Browse(words=typed, limit=MAX_NAMED, states=("active", "replaced", "retired"))
            )
            explained = [await explain(hit.id) for hit in named.memories] or explained
        place.clear()
        with place:
            self._show_memories([found for found in explained if found is not None], scale)

    async def _show_copies(self) -> None:
        """Show the question as a call that other programs can make."""
        arguments = self._settings[0].recall(self._question or "…").given()
        base = str(ui.context.client.request.base_url).rstrip("/")
        copies = {
            "curl": as_curl(base, self._user, self._session, arguments),
            "Python": as_python(self._user, self._session, arguments),
            "nats": as_nats(self._user, self._session, arguments),
        }
        with dialog("Copy as") as shown, ui.card().classes("dialog wide"):
            text("h2", "Copy as")
            for name, written in copies.items():
                with ui.element("div").classes("row-of"):
                    text("h3", name)
                    copy = partial(ui.clipboard.write, written)
                    ui.button("Copy", on_click=copy).props("flat dense")
                text("pre", written).classes("code").props("tabindex=0")
            with ui.row().classes("dialog-actions"):
                ui.button("Close", on_click=shown.close).props("flat")
        shown.open()


def _moment_said(as_of: date | None) -> str:
    return f"As of the end of {as_of}" if as_of else "As of now"


def _show_parts(explanation: Explanation, scale: float) -> None:
    """Show what a score is made of: what raises it, and below what lowers it; and both in words."""
    hues = {name: number % HUES for number, name in enumerate(explanation.shares)}
    parts = {name: share for name, share in explanation.shares.items() if share}
    for sign, look in ((1, "score-bar"), (-1, "score-bar lowering")):
        shown = {name: share for name, share in parts.items() if share * sign > 0}
        if not shown or not scale:
            continue
        with ui.element("div").classes(look).props("aria-hidden=true"):
            for name, share in shown.items():
                width = min(100 * abs(share) / scale, 100)
                part = ui.element("span").classes(f"part-{hues[name]}").style(f"width:{width:.2f}%")
                part.props["title"] = f"{name} {share:+.2f}: {PARTS.get(name, '')}"
    with ui.element("ul").classes("parts"):
        for name, share in parts.items():
            with ui.element("li"):
                ui.element("i").classes(f"part-{hues[name]}").props("aria-hidden=true")
                text("span", f"{name} {share:+.2f}")
        if explanation.weight != 1:
            with ui.element("li"):
                text("span", f"× {explanation.weight:g} for its scope")  # noqa: RUF001 - times


def as_curl(base: str, user: str, session: str, arguments: Json) -> str:
    """The recall as a request for HTTP."""
    headers = ["Content-Type: application/json"]
    headers += [f"{USER_HEADER}: {user}"] if user else []
    headers += [f"{SESSION_HEADER}: {session}"] if session else []
    given = " ".join(f"-H {shlex.quote(header)}" for header in headers)
    body = shlex.quote(msgspec.json.encode(arguments).decode())
    return (
        f'curl -s {base}/v1/tools/{RECALL.name} -H "Authorization: Bearer $TOKEN" \\\n'
        f"  {given} \\\n  -d {body}"
    )


def as_python(user: str, session: str, arguments: Json) -> str:
    """The recall as a program."""
    who = {"user": user, "session": session}
    named = ", ".join(f"{name}={value!r}" for name, value in who.items() if value)
    # The Python client has no argument for the reranker: it is as the stack has it.
    given = {name: value for name, value in arguments.items() if name != "enable_rerank"}
    values = ", ".join(f"{name}={value!r}" for name, value in given.items())
    return (
        "import asyncio\n\nimport local2\n\n\nasync def main():\n"
        f"    async with local2.connect({named}) as memory:\n"
        f"        found = await memory.recall({values})\n"
        "    for item in found.items:\n        print(item.score, item.content)\n\n\n"
        "asyncio.run(main())"
    )


def as_nats(user: str, session: str, arguments: Json) -> str:
    """The recall as a request on the bus."""
    envelope: Json = {"user": user, "session_id": session}
    request = {name: value for name, value in envelope.items() if value}
    request["payload"] = {"args": arguments}
    body = shlex.quote(msgspec.json.encode(request).decode())
    return f"nats req {tool_request(RECALL.name)} {body}"
