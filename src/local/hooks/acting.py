"""What is done when something happens in a client: remind its model, and remember its turns."""

import os
import subprocess
import sys
import time
from collections.abc import Callable
from contextlib import suppress
from datetime import timedelta
from pathlib import Path
from typing import NamedTuple

from local.errors import BusError, StackNotRunningError
from local.hooks.clients.client import Client
from local.hooks.context import (
    context_of,
    notes_in,
    recalled,
    what_matters,
    without_contexts,
)
from local.hooks.events import (
    Answered,
    Compacting,
    Event,
    Interjected,
    Prompted,
    SessionEnded,
    SessionStarted,
    TurnEnded,
)
from local.hooks.outbox import FinishedTurn, Outbox
from local.hooks.sessions import Session, Sessions
from local.hooks.wire import Request, Wire
from local.protocol.envelope import decode, encode, new_id, seal, utc_now
from local.protocol.payloads import Json, ToolRequest, ToolResult
from local.protocol.subjects import tool_request
from local.runtime import running_url
from local.settings import Settings

FOLDER = "hooks"
PROMPT_SECONDS = 0.25
"""Until the answer to a prompt has to be there; 300 ms with the start of the interpreter."""
START_SECONDS = 1.0
"""That the start of a session waits for a stack; the first prompt brings what was not there."""
POLL = 0.02
RECALLED = 5
LONGEST_QUERY = 2_000
"""Characters of a prompt that are searched for."""
LEAST_RELEVANCE = 0.5
"""Share of the best item's score: what is far behind it is seldom about the prompt."""
USED = "clients.lock"


class Situation(NamedTuple):
    """Where the memory lies, and for whom it is asked."""

    home: Path
    settings: Settings
    user: str | None

    @property
    def folder(self) -> Path:
        return self.settings.memory.data_dir / FOLDER


class Hooks:
    """The hooks of one client."""

    def __init__(self, client: Client, situation: Situation, began: float) -> None:
        """`began`: when this process did, by the monotonic clock."""
        self._client = client
        self._situation = situation
        self._began = began
        self._sessions = Sessions(situation.folder / "sessions", client.name)
        self._outbox = Outbox(situation.folder / "turns")

    def act(self, event: Event) -> str | None:
        """Do what the event asks for; return a context for the model, if there is one.

        Raises:
            BusError: The memory does not answer in time.
        """
        match event:
            case SessionStarted():
                return self._start(event)
            case Prompted():
                return self._prompt(event)
            case Interjected():
                self._change(event, lambda session: _begin(session, None, None))
            case Answered():
                self._change(event, lambda session: _add(session, event))
            case TurnEnded():
                self._finish(event)
            case Compacting():
                self._change(event, lambda session: setattr(session, "compacted", True))
            case SessionEnded():
                self._sessions.end(event.session)
                if not self._outbox.is_empty:
                    self._in_background()
        return None

    def _start(self, event: SessionStarted) -> str | None:
        """Have a stack started, and give the model what matters if it is there soon."""
        session = self._sessions.load(event.session)
        session.reminded = False
        session.compacted = session.compacted or event.compacted
        self._sessions.save(event.session, session)
        self._in_background()
        ends = self._began + START_SECONDS
        while True:
            try:
                return self._remind(event, session, None, within=ends - time.monotonic())
            except StackNotRunningError:
                if time.monotonic() + POLL > ends:
                    raise
                time.sleep(POLL)

    def _prompt(self, event: Prompted) -> str | None:
        session = self._sessions.load(event.session)
        query = without_contexts(event.text)
        _begin(session, query or None, event.turn)
        self._sessions.save(event.session, session)
        if not (query and self._client.prompts_take_contexts):
            return None
        within = self._began + PROMPT_SECONDS - time.monotonic()
        try:
            return self._remind(event, session, query, within=within)
        except StackNotRunningError:
            self._in_background()
            raise

    def _finish(self, event: TurnEnded) -> None:
        """Put the turn where it waits to be delivered; its session may revise the answer."""
        session = self._sessions.load(event.session)
        answer = without_contexts(event.text or "\n\n".join(session.answers))
        if not (session.query and session.query_id and session.at and answer):
            return
        if event.turn is not None and event.turn != session.query_id:
            return
        self._outbox.put(
            FinishedTurn(
                user=self._situation.user,
                agent=self._client.name,
                session_id=event.session,
                query_id=session.query_id,
                query=session.query,
                answer=answer,
                at=session.at,
                project=event.project,
            )
        )
        self._in_background()

    def _change(self, event: Event, change: Callable[[Session], None]) -> None:
        session = self._sessions.load(event.session)
        change(session)
        self._sessions.save(event.session, session)

    def _remind(
        self, event: Event, session: Session, query: str | None, *, within: float
    ) -> str | None:
        """What the memory has: on the query, and once a session what matters most."""
        calls: list[tuple[str, Json]] = []
        if not session.reminded:
            calls = [("top_memories", {}), ("load_session", {"limit": 0})]
        if query is not None:
            found = {"top_k": RECALLED, "min_relevance": LEAST_RELEVANCE, "enable_rerank": False}
            calls.append(("recall", {"query": query[:LONGEST_QUERY], **found}))
        results = dict(zip(dict(calls), self._ask(event.session, calls, within), strict=True))
        if not session.reminded:
            session.reminded = True
            self._sessions.save(event.session, session)
        parts = {"top_memories": what_matters, "load_session": notes_in}
        told = [parts[tool](result) for tool, result in results.items() if tool in parts]
        if "recall" in results:
            told.append(recalled(results["recall"], event.session, session))
        return context_of(told)

    def _ask(
        self, session_id: str, calls: list[tuple[str, Json]], within: float
    ) -> list[ToolResult]:
        settings = self._situation.settings
        url = running_url(settings)
        with suppress(OSError):  # a stack elsewhere has no such file
            os.utime(settings.memory.data_dir / USED)
        requests = [self._request(session_id, tool, args, within) for tool, args in calls]
        with Wire(url, _credentials(self._situation), within=within) as wire:
            answers = wire.ask(requests)
        if None in answers:
            raise StackNotRunningError("The memory does not serve its tools yet.")
        return [decode(answer, ToolResult).payload for answer in answers if answer is not None]

    def _request(self, session_id: str, tool: str, args: Json, within: float) -> Request:
        request = seal(
            ToolRequest(args=args),
            type="request",
            source=self._client.name,
            user=self._situation.user,
            session_id=session_id,
            deadline_utc=utc_now() + timedelta(seconds=within),
        )
        return Request(tool_request(tool), encode(request))

    def _in_background(self) -> None:
        """Start the process that starts a stack and delivers turns; nobody waits for it."""
        command = [sys.executable, "-P", "-m", "local.hooks.delivery", str(self._situation.home)]
        subprocess.Popen(  # noqa: S603 - the interpreter that runs
            command,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )


def _begin(session: Session, query: str | None, turn: str | None) -> None:
    session.query, session.query_id, session.at = query, turn or new_id(), utc_now()
    session.answers = []


def _add(session: Session, event: Answered) -> None:
    if event.turn is None or event.turn == session.query_id:
        session.answers.append(event.text)


def _credentials(situation: Situation):
    bus = situation.settings.bus
    if bus.credentials is None and bus.tenant is None:
        return None
    from local.tenants.asking import credentials_of  # noqa: PLC0415 - few have accounts; it is slow

    return credentials_of(bus, situation.user)
