"""What is done when something happens in a client: remind its model, and remember its turns."""

import sys
import time
from collections.abc import Callable

from local.errors import NoRespondersError, StackNotRunningError
from local.hooks import BEGAN
from local.hooks.clients.client import Client
from local.hooks.context import without_contexts
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
from local.hooks.reminding import Reminder
from local.hooks.sessions import Session, Sessions
from local.hooks.situation import Situation
from local.protocol.envelope import new_id, utc_now

PROMPT_SECONDS = 0.25
"""Until the answer to a prompt has to be there; 300 ms with the start of the interpreter."""
START_SECONDS = 1.0
"""That the start of a session waits for a stack; the first prompt brings what was not there."""
POLL = 0.02


class Hooks:
    """The hooks of one client."""

    def __init__(
        self, client: Client, situation: Situation, deliver: Callable[[Situation], None]
    ) -> None:
        """`deliver` has a stack started, and turns delivered; it returns at once."""
        self._client = client
        self._situation = situation
        self._deliver = deliver
        self._sessions = Sessions(situation.folder / "sessions", client.name)
        self._outbox = Outbox(situation.turns)

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
                self._change(event, _compact)
            case SessionEnded():
                self._sessions.end(event.session)
                if not self._outbox.is_empty:
                    self._deliver(self._situation)
        return None

    def _start(self, event: SessionStarted) -> str | None:
        """Have a stack started, and give the model what matters if it is there soon."""
        session = self._sessions.load(event.session)
        session.reminded = False
        session.compacted = session.compacted or event.compacted
        self._sessions.save(event.session, session)
        self._deliver(self._situation)
        ends = BEGAN + START_SECONDS
        while True:
            try:
                return self._remind(event, session, None, within=ends - time.monotonic())
            except (StackNotRunningError, NoRespondersError):
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
        within = BEGAN + PROMPT_SECONDS - time.monotonic()
        try:
            return self._remind(event, session, query, within=within)
        except StackNotRunningError:
            self._deliver(self._situation)
            raise

    def _remind(
        self, event: Event, session: Session, query: str | None, *, within: float
    ) -> str | None:
        before = session.reminded
        reminder = Reminder(self._situation, self._client.name, event.session)
        context = reminder.remind(session, query, within=within)
        if session.reminded != before:
            self._sessions.save(event.session, session)
        return context

    def _finish(self, event: TurnEnded) -> None:
        """Put the turn where it waits to be delivered; a later answer of it takes its place."""
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
        self._deliver(self._situation)

    def _change(self, event: Event, change: Callable[[Session], None]) -> None:
        session = self._sessions.load(event.session)
        change(session)
        self._sessions.save(event.session, session)


def start_delivery(situation: Situation) -> None:
    """Start the process that starts a stack and delivers turns; nobody waits for it."""
    import subprocess  # noqa: PLC0415 - few hooks need it

    command = [sys.executable, "-P", "-m", "local.hooks.delivery", str(situation.home)]
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


def _compact(session: Session) -> None:
    session.compacted = True
