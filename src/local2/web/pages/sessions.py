"""Sessions: conversations as they were, and beside each answer what had been shown before it."""

from collections.abc import Mapping, Sequence
from datetime import timedelta
from functools import partial

import msgspec
from nicegui import ui

from local2.protocol.browsing import MAX_PAGE, Browse, ListSessions, SessionsPage
from local2.protocol.memory_tools import MAX_LIMIT, SessionContent, SessionMessage
from local2.protocol.showings import MAX_SHOWINGS, FindShowings, ShowingFound, ShowingsPage
from local2.web.pages.frame import (
    ChoiceList,
    Disclosure,
    Pager,
    Viewer,
    counted,
    empty,
    link,
    notify,
    opener,
    read_on,
    section,
    stay,
    tag,
    text,
    when,
)
from local2.web.pages.memory_drawer import open_memory

SHOWN_MESSAGES = 200
"""Maximum number of messages of a session that are shown together, first the newest ones."""
TURN = timedelta(minutes=5)
"""What was shown before an answer may be so much older than the answer."""
RATINGS = {1.0: "o_thumb_up", -1.0: "o_thumb_down"}


async def show(viewer: Viewer) -> None:
    await SessionsView(viewer).show()


class SessionsView:
    """The sessions that a viewer may see, and one of them as a conversation."""

    def __init__(self, viewer: Viewer) -> None:
        self._viewer = viewer
        # Where there are accounts, nobody reads another user's conversations.
        self._everybody = not viewer.has_accounts and viewer.may("browse_all")
        self._pager = Pager[str](self._load)
        self._shown: ShowingsPage | None = None

    async def show(self) -> None:
        page = await self._read_page()
        named = self._viewer.query.get("id")
        if not page.sessions and page.next is None and named is None:
            empty(
                "o_forum",
                "There are no conversations yet.",
                "Talk in the terminal (`local2 chat`), connect an agent, or bring conversations "
                "with you (`local2 import`).",
            )
            return
        with ui.element("div").classes("list-and-detail"):
            self._list = ChoiceList[tuple[str, str | None]]()
            self._place = ui.element("div").classes("page-content")
        self._show_page(page)
        self._viewer.on_return = self._load
        if named is not None:
            await self._open(named, self._viewer.query.get("user"))
        elif page.sessions:
            await self._open(page.sessions[0].session_id, page.sessions[0].user)

    async def _read_page(self) -> SessionsPage:
        async def read(after: str | None) -> SessionsPage:
            asked = ListSessions(after=after)
            return await self._viewer.memory.sessions(asked, everybody=self._everybody)

        return await read_on(read, lambda page: not page.sessions, self._pager.cursor)

    async def _load(self) -> None:
        self._show_page(await self._read_page())

    def _show_page(self, page: SessionsPage) -> None:
        self._list.clear()
        with self._list.element:
            for session in page.sessions:
                key = (session.session_id, session.user)
                with self._list.add(key, partial(self._open, *key)):
                    text("span", session.session_id).classes("cut-text")
                    with ui.element("span").classes("row-of quiet"):
                        if session.user and session.user != self._viewer.caller.user:
                            text("span", session.user).classes("cut-text")
                        when(session.last)
                        text("span", counted(session.messages, "message"))
            if not page.sessions:
                text("p", "No further ones." if page.next is None else "None so far: read on.")
            self._pager.show(page.next)

    async def _open(self, id_: str, user: str | None) -> None:
        self._viewer.set_address(id=id_, user=user)
        show = partial(self._show_conversation, id_, user)
        self._messages = Pager[int](show, before="Later messages", after="Earlier messages")
        await show()

    async def _show_conversation(self, id_: str, user: str | None) -> None:
        viewer = self._viewer
        if user is not None and not viewer.has_accounts:
            viewer = viewer.looking_as(user)
        later = self._messages.cursor or 0
        shown = None if self._messages.is_first else self._shown
        self._wanted = find = FindShowings(session_id=id_, limit=MAX_SHOWINGS)
        content = await viewer.memory.load_session(id_, limit=later + SHOWN_MESSAGES)
        messages = content.messages[: len(content.messages) - later][-SHOWN_MESSAGES:]
        shown = shown or await viewer.memory.shown(find)
        ratings: dict[str, float] = {}
        if messages:
            oldest, newest = messages[0].event_time, messages[-1].event_time
            # What was shown before later answers has been read already, with their page.
            while shown.next and shown.showings[-1].shown_at > oldest - TURN:
                following = msgspec.structs.replace(find, after=shown.next)
                more = await viewer.memory.shown(following)
                shown = ShowingsPage(showings=[*shown.showings, *more.showings], next=more.next)
            browse = Browse(
                session_id=id_,
                kinds=("chat_message",),
                since=oldest.isoformat(),
                until=newest.isoformat(),
                limit=MAX_PAGE,
            )
            while True:
                page = await viewer.memory.browse(browse)
                ratings |= {memory.id: memory.score for memory in page.memories if memory.score}
                if page.next is None:
                    break
                browse = msgspec.structs.replace(browse, after=page.next)
        if find is not self._wanted:  # something else was chosen meanwhile
            return
        self._shown = shown
        self._list.choose((id_, user))
        can_go_on = content.earlier and later + SHOWN_MESSAGES < MAX_LIMIT
        self._place.clear()
        with self._place:
            if content.earlier and not can_go_on:
                chosen = {"session_id": id_, "kinds": "chat_message"}
                if self._everybody and user is not None:
                    chosen["of"] = user
                only = f"Only the last {MAX_LIMIT:,} messages are here. Read all"
                link(only, "/memories", **chosen)
            self._messages.show(later + SHOWN_MESSAGES if can_go_on else None)
            ShownConversation(viewer, content, messages, shown, ratings).show()


class ShownConversation:
    """One session as a chat."""

    def __init__(
        self,
        viewer: Viewer,
        content: SessionContent,
        messages: Sequence[SessionMessage],
        shown: ShowingsPage,
        ratings: Mapping[str, float],
    ) -> None:
        self._viewer = viewer
        self._content = content
        self._messages = messages
        self._shown = shown
        self._ratings = ratings

    def show(self) -> None:
        content = self._content
        with section(content.session_id):
            if content.degraded:
                text("p", f"Turns may be missing: {content.reason}").classes("banner")
            if not self._messages:
                text("p", "Its messages were forgotten, or belong to somebody else.")
            question = ""
            for number, message in enumerate(self._messages):
                if message.role == "user":
                    question = message.content
                following = self._messages[number + 1 :][:1]
                ends_turn = not following or following[0].role == "user"
                self._show_message(message)
                if message.role == "assistant" and message.content and ends_turn:
                    self._show_turn(message, question)

    def _show_message(self, message: SessionMessage) -> None:
        if message.role == "tool":
            answer = Disclosure(f"Answer of {message.name or 'a tool'}").classes("message tool")
            with answer.content:
                text("pre", message.content).classes("code").props("tabindex=0")
            return
        for call in message.tool_calls:
            text("p", f"calls {call.name}").classes("message quiet")
        if not message.content:
            return
        is_users = message.role == "user"
        with ui.element("div").classes("message said-by-user" if is_users else "message"):
            with ui.element("div").classes("row-of quiet"):
                text("span", message.name or message.role)
                when(message.event_time)
            text("p", message.content).classes("whole-text")

    def _show_turn(self, message: SessionMessage, question: str) -> None:
        """Show, beside an answer, what had been shown before it, and its rating."""
        of_turn = [
            showing
            for showing in self._shown.showings
            if message.query_id is not None and showing.query_id == message.query_id
        ]
        with ui.element("div").classes("of-turn"):
            with ui.element("div").classes("row-of"):
                if message.query_id is not None:
                    self._add_rating(message)
                if question:
                    user = self._viewer.caller.user or ""
                    link("Ask this again", "/ask", q=question, user=user)
            for showing in of_turn:
                self._show_showing(showing)
            if not of_turn and self._shown.next is None:  # else it may be among older ones
                text("p", "No memories were shown before this answer.").classes("quiet")

    def _show_showing(self, showing: ShowingFound) -> None:
        if showing.question is not None:
            head = f"Recalled for “{showing.question}”"
        else:
            head = "Shown before this answer"
        with Disclosure(f"{head}: {len(showing.memories)}").classes("showing").content:
            for memory in showing.memories:
                with ui.element("div").classes("row-of"):
                    if memory.score is not None:
                        tag(f"{memory.score:.2f}")
                    if memory.content is None:
                        text("span", "It is gone, or belongs to somebody else.").classes("quiet")
                        continue
                    opener(memory.content, "", partial(open_memory, self._viewer, memory.id, stay))

    def _add_rating(self, message: SessionMessage) -> None:
        given = self._ratings.get(message.id)
        said = tag(_rating_said(given), "accent")
        said.visible = given is not None

        async def rate(score: float) -> None:
            session = self._content.session_id
            await self._viewer.memory.feedback(str(message.query_id), score, session=session)
            said.text, said.visible = _rating_said(score), True
            notify("Rated. It counts from the next recall on.")

        for score, icon in RATINGS.items():
            name = "Good answer" if score > 0 else "Bad answer"
            button = ui.button(icon=icon, on_click=partial(rate, score))
            button.props(f'flat round dense aria-label="{name}"')


def _rating_said(score: float | None) -> str:
    return f"rated {score:+g}" if score is not None else ""
