"""Facts: what holds about somebody as a timeline, and contradictions that wait for a decision."""

import asyncio
from collections.abc import Sequence
from functools import partial
from itertools import groupby
from typing import NamedTuple

from nicegui import ui
from nicegui.events import ValueChangeEventArguments

from local2.protocol.browsing import Browse, BrowsedMemory
from local2.protocol.memory_tools import RELATIONS, ListRelations, RelatedMemory
from local2.web.pages.frame import (
    Pager,
    Viewer,
    empty,
    notify,
    notify_of_run,
    opener,
    section,
    tag,
    text,
    when,
)
from local2.web.pages.memory_drawer import open_memory, readable

PAGE_SIZE = 50
EVERYBODY = "everybody"
"""The owner of the facts that are for everybody, and in the address."""


class Contradiction(NamedTuple):
    """A fact that stands, and what says otherwise: a later fact, or a message that denies it."""

    fact: BrowsedMemory
    against: RelatedMemory


async def show(viewer: Viewer) -> None:
    await FactsPage(viewer).show()


class FactsPage:
    """The facts of one owner, the newest first."""

    def __init__(self, viewer: Viewer) -> None:
        self._viewer = viewer
        self._owner = viewer.query.get("owner") or viewer.caller.user or EVERYBODY
        self._pager = Pager[str](self._load)

    async def show(self) -> None:
        viewer = self._viewer
        owners = {EVERYBODY: "For everybody"}
        if viewer.caller.user:
            owners[viewer.caller.user] = f"{viewer.caller.user} (you)"
        if not viewer.has_accounts and viewer.may("browse_all"):
            overview = await viewer.memory.overview(everybody=True)
            owners |= {
                owner.name: owner.name
                for owner in overview.users
                if owner.name and owner.name not in owners
            }
        if self._owner not in owners:
            self._owner = EVERYBODY
        with ui.element("div").classes("filters"):
            choice = ui.select(owners, value=self._owner, label="Facts about")
            choice.props("outlined dense").on_value_change(self._choose)
        self._place = ui.element("div").classes("page-content").props("data-rows")
        await self._load()
        viewer.on_return = self._load

    async def _choose(self, event: ValueChangeEventArguments[str]) -> None:
        self._owner = event.value
        self._pager.restart()
        self._viewer.set_address(owner=self._owner)
        await self._load()

    @property
    def _seen_by(self) -> Viewer:
        """The viewer as the owner sees the memory."""
        is_other = self._owner not in {EVERYBODY, self._viewer.caller.user}
        return self._viewer.looking_as(self._owner) if is_other else self._viewer

    async def _load(self) -> None:
        seen_by = self._seen_by
        self._wanted = wanted = Browse(
            kinds=("fact",),
            scopes=("tenant", "agent") if self._owner == EVERYBODY else ("user",),
            states=("active", "replaced", "retired"),
            limit=PAGE_SIZE,
            after=self._pager.cursor,
        )
        page = await seen_by.memory.browse(wanted)
        waiting = await contradictions(seen_by, page.memories)
        if wanted is not self._wanted:  # something else was chosen meanwhile
            return
        self._place.clear()
        with self._place:
            if not page.memories:
                empty(
                    "o_fact_check",
                    "There are no facts here.",
                    "Agents store them (`remember_fact`), and they are extracted from "
                    "conversations.",
                )
            if waiting:
                hint = "Both still stand. Decide which one holds; the other stays in the history."
                with section("Waiting for a decision", hint):
                    for contradiction in waiting:
                        self._show_contradiction(contradiction)
            for month, facts in groupby(
                page.memories, key=lambda fact: fact.event_time.astimezone().strftime("%B %Y")
            ):
                text("h2", month)
                with ui.element("ol").classes("timeline"):
                    for fact in facts:
                        self._show_fact(fact)
            self._pager.show(page.next)

    def _show_fact(self, fact: BrowsedMemory) -> None:
        entry = ui.element("li").classes("" if fact.state == "active" else "past")
        with entry.props("data-place"):
            with ui.element("div").classes("row-of quiet"):
                when(fact.event_time)
                if fact.topic:
                    text("span", fact.topic).classes("mono")
                if fact.state != "active":
                    tag(readable(fact.retired_why or fact.state))
                if fact.pinned:
                    tag("pinned", "accent")
            opened = partial(open_memory, self._seen_by, fact.id, self._load, fact)
            opener(fact.content, "two-lines", opened)

    def _show_contradiction(self, contradiction: Contradiction) -> None:
        fact, against = contradiction
        if against.kind == "fact":
            keep = partial(self._retire, against.id, "The earlier fact holds.")
        else:
            keep = partial(self._state_again, fact)
        retire = partial(self._retire, fact.id, "What says otherwise holds.")
        with ui.element("div").classes("contradiction").props("data-place"):
            for name, said, settle in (("Stands", fact, keep), ("Says otherwise", against, retire)):
                with ui.element("div").classes("panel"):
                    with ui.element("div").classes("row-of quiet"):
                        text("span", name)
                        when(said.event_time)
                    text("p", said.content).classes("whole-text")
                    ui.button("This holds", on_click=settle).props("outline")

    async def _retire(self, id_: str, reason: str) -> None:
        retired = await self._seen_by.memory.retire([id_], reason)
        notify_of_run(self._seen_by, "Settled.", retired.run, self._load)
        await self._load()

    async def _state_again(self, fact: BrowsedMemory) -> None:
        """State a fact once more: a message that denied it does not count any longer."""
        scope = fact.scope if fact.scope != "session" else "user"
        await self._seen_by.memory.remember(fact.content, topic=fact.topic, scope=scope)
        notify("Settled: it still holds.")
        await self._load()


async def contradictions(viewer: Viewer, facts: Sequence[BrowsedMemory]) -> list[Contradiction]:
    """Find what says otherwise about facts that stand, as far as it stands, too."""
    standing = [fact for fact in facts if fact.state == "active"]
    related = await asyncio.gather(
        *(viewer.calls.ask(RELATIONS, ListRelations(id=fact.id)) for fact in standing)
    )
    return [
        Contradiction(fact, relation)
        for fact, found in zip(standing, related, strict=True)
        for relation in found.relations
        if relation.type == "contradicts" and relation.incoming and relation.active
    ]
