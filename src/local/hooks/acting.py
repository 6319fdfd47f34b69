"""One hook: it reads an event of a client, and reminds the model or stores the turn, in time.

Whatever fails, the hook succeeds: no failure of it concerns the client.
"""

import os
import signal
import sys
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from types import FrameType
from typing import NoReturn

import msgspec

from local.errors import NoRespondersError, StackNotRunningError
from local.home import MARK, PRIVATE, home_of, own_home, person_of
from local.hooks import BEGAN
from local.hooks.clients import CLIENTS
from local.hooks.clients.client import (
    Answered,
    Client,
    Compacting,
    Event,
    Interjected,
    Prompted,
    SessionEnded,
    SessionStarted,
    TurnEnded,
)
from local.hooks.reminding import Reminder, without_contexts
from local.hooks.state import FinishedTurn, Outbox, Session, Sessions, Situation, log_problem
from local.protocol.envelope import new_id, utc_now

LONGEST = 2.0
"""Seconds after which a hook ends, whatever it is doing: even a disk may hang."""
PROMPT_SECONDS = 0.25
"""Seconds for the answer to a prompt; 300 ms with the start of the interpreter."""
START_SECONDS = 1.0
"""Seconds that the start of a session waits for a stack; the first prompt makes up for the rest."""
POLL = 0.02


def main(arguments: Sequence[str]) -> NoReturn:
    """Run a hook: CLIENT EVENT [--home DIR] [--user NAME], with the event on standard input.

    It exits with 0, and writes all of its answer or nothing.
    """
    os.umask(PRIVATE)
    signal.signal(signal.SIGALRM, _give_up)
    signal.setitimer(signal.ITIMER_REAL, LONGEST)
    try:
        output = _run(arguments)
        signal.setitimer(signal.ITIMER_REAL, 0)
        while output:
            output = output[os.write(sys.stdout.fileno(), output) :]
    finally:
        os._exit(0)


def _give_up(_: int, __: FrameType | None) -> None:
    os._exit(0)


def _run(arguments: Sequence[str]) -> bytes:
    """Return what the hook writes; problems go to the log of its memory."""
    name, event, *rest = arguments
    options = dict(zip(rest[::2], rest[1::2], strict=True))
    home = own_home()
    try:
        home = home_of(options.get("--home"))
        client = CLIENTS[name]
        happened = client.read(sys.stdin.buffer.read())
        if happened is None:
            return b""
        if happened.project is not None:
            with suppress(OSError):
                os.chdir(happened.project)
        home = home_of(options.get("--home"))
        situation = Situation.of(home, person_of(options.get("--user")))
        context = Hooks(client, situation, start_delivery).act(happened)
    except Exception as error:  # noqa: BLE001 - whatever it is, it is not the client's concern
        log_problem(home / MARK, f"{name} {event}", error)
        return b""
    return msgspec.json.encode(client.answer(event, context)) if context else b""


class Hooks:
    """The hooks of one client."""

    def __init__(
        self, client: Client, situation: Situation, deliver: Callable[[Situation], None]
    ) -> None:
        """`deliver` starts a stack and delivers turns in the background; it returns at once."""
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
        """Start a stack, and give the model what matters if the stack answers soon."""
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
    """Start the process that starts a stack and delivers turns, without waiting for it."""
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
