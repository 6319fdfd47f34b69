"""Run one hook: read a client's event, then give the model a context or store the turn, in time.

A hook always exits successfully, because its failures do not concern the client.
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

from local2.errors import (
    BadRequestError,
    BusError,
    BusTimeoutError,
    NoRespondersError,
    StackNotRunningError,
)
from local2.home import MEMORY_FOLDER, PRIVATE_UMASK, home_of, own_home, user_name
from local2.hook_files import count_prompt
from local2.hooks import BEGAN
from local2.hooks.clients import CLIENTS
from local2.hooks.clients.client import (
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
from local2.hooks.context import ContextReader, without_contexts
from local2.hooks.state import (
    HookSessions,
    Outbox,
    Session,
    Situation,
    described,
    log_problem,
)
from local2.protocol.envelope import new_id, seal, utc_now
from local2.protocol.msgspec_errors import split_path
from local2.protocol.payloads import Generation

HOOK_SECONDS = 2.0
"""Seconds after which a hook ends, whatever it is doing, since even a disk may hang."""
TURN_SECONDS = 120.0
"""Seconds that a finished turn has on a disk that hangs, while its client goes on."""
LOG_SECONDS = 0.2
"""Seconds for the log of a hook that is ended."""
PROMPT_SECONDS = 0.25
"""Seconds that a prompt waits for its context; 300 ms with the start of the interpreter."""
ASKING_SECONDS = 0.15
"""Seconds that the memory has to answer a prompt even if, on a busy machine, the hook's own start
has used up the time."""
START_SECONDS = 1.0
"""Seconds that the start of a session waits for a stack. If that is too short, the first prompt
gets the context."""
POLL = 0.02
"""Seconds between two attempts to ask a stack that is starting."""


def main(arguments: Sequence[str]) -> NoReturn:
    """Run a hook: CLIENT EVENT [--home DIR] [--user NAME], with the event on standard input.

    It writes its whole output or nothing, and always exits with 0.
    """
    os.umask(PRIVATE_UMASK)
    run = HookRun(arguments)
    signal.signal(signal.SIGALRM, run.give_up)
    signal.setitimer(signal.ITIMER_REAL, HOOK_SECONDS)
    try:
        output = run.output()
        signal.setitimer(signal.ITIMER_REAL, 0)
        while output:
            output = output[os.write(sys.stdout.fileno(), output) :]
    finally:
        os._exit(0)


class HookRun:
    """One hook: CLIENT EVENT, and options."""

    def __init__(self, arguments: Sequence[str]) -> None:
        self._arguments = arguments
        self._data_dir = own_home() / MEMORY_FOLDER
        self._event: Event | None = None
        self._is_detached = False

    def output(self) -> bytes:
        """Run the hook, and make its output; problems are logged in the folder of its memory."""
        try:
            client_name, event_name, *rest = self._arguments
            options = dict(zip(rest[::2], rest[1::2], strict=True))
            self._data_dir = home_of(options.get("--home")) / MEMORY_FOLDER
            client = CLIENTS[client_name]
            self._event = event = _read(client, event_name, sys.stdin.buffer.read())
            if event is None:
                return b""
            if event.project is not None:
                with suppress(OSError):
                    os.chdir(event.project)
            home = home_of(options.get("--home"))
            self._data_dir = home / MEMORY_FOLDER
            situation = Situation.of(home, user_name(options.get("--user")))
            self._data_dir = situation.settings.memory.data_dir
            context = Hooks(client, situation, start_delivery).act(event)
        except Exception as error:  # noqa: BLE001 - no failure concerns the client
            self._log(error)
            return b""
        if context is None:
            return b""
        return msgspec.json.encode(client.answer(event_name, context))

    def give_up(self, _: int, __: FrameType | None) -> None:
        """End the process, and log that, unless the log hangs as well.

        A finished turn is stored by a process that goes on, for which the client does not wait.
        """
        from threading import Thread  # noqa: PLC0415 - hardly ever needed

        if isinstance(self._event, TurnEnded) and not self._is_detached:
            with suppress(OSError):
                self._is_detached = os.fork() == 0
            if self._is_detached:
                self._leave_client()
                return
        ended = "It gave up a finished turn" if self._is_detached else "The hook was ended"
        seconds = TURN_SECONDS if self._is_detached else HOOK_SECONDS
        problem = BusTimeoutError(f"{ended} after {seconds:g} s.")
        logging = Thread(target=self._log, args=(problem,), daemon=True)
        logging.start()
        logging.join(LOG_SECONDS)
        os._exit(0)

    def _leave_client(self) -> None:
        os.setsid()  # a client may end all that it has started
        nowhere = os.open(os.devnull, os.O_RDWR)
        for stream in (sys.stdin, sys.stdout, sys.stderr):
            os.dup2(nowhere, stream.fileno())
        signal.setitimer(signal.ITIMER_REAL, TURN_SECONDS)

    def _log(self, error: Exception) -> None:
        log_problem(self._data_dir, " ".join(self._arguments[:2]), error)
        client = CLIENTS.get(self._arguments[0]) if self._arguments else None
        if isinstance(self._event, Prompted) and client and client.prompts_take_contexts:
            count_prompt(self._data_dir, client.name, described(error))


class Hooks:
    """The hooks of one client."""

    def __init__(
        self, client: Client, situation: Situation, deliver: Callable[[Situation], None]
    ) -> None:
        """Handle a client's events. `deliver` must return at once: it works in the background."""
        self._client = client
        self._situation = situation
        self._deliver = deliver
        self._sessions = HookSessions(situation.folder / "sessions", client.name)
        self._outbox = Outbox(situation.turns)

    def act(self, event: Event) -> str | None:
        """Handle an event; return a context for the model, if there is one.

        Raises:
            BusError: The memory does not answer in time.
        """
        match event:
            case SessionStarted():
                return self._start(event)
            case Prompted():
                return self._prompt(event)
            case Interjected():
                with self._sessions.changing(event.session) as session:
                    _begin_turn(session, None, None)
            case Answered():
                with self._sessions.changing(event.session) as session:
                    if event.turn is None or event.turn == session.query_id:
                        session.answers.append(event.text)
            case TurnEnded():
                self._finish(event)
            case Compacting():
                with self._sessions.changing(event.session) as session:
                    session.compacted = True
            case SessionEnded():
                self._sessions.end(event.session)
                if not self._outbox.is_empty:
                    self._deliver(self._situation)
        return None

    def _start(self, event: SessionStarted) -> str | None:
        """Start a stack, and return the most important memories if the stack answers soon."""
        with self._sessions.changing(event.session) as session:
            session.reminded = False
            session.compacted = session.compacted or event.compacted
        self._deliver(self._situation)
        reader = self._reader(event)
        ends = BEGAN + START_SECONDS
        while True:
            try:
                within = ends - time.monotonic()
                return self._read_context(reader, event, session, None, within=within)
            except (StackNotRunningError, NoRespondersError):
                if time.monotonic() + POLL > ends:
                    raise
                time.sleep(POLL)

    def _prompt(self, event: Prompted) -> str | None:
        query = without_contexts(event.text)
        with self._sessions.changing(event.session) as session:
            _begin_turn(session, query or None, event.turn)
        if not (query and self._client.prompts_take_contexts):
            return None
        reader = self._reader(event)
        spent = time.monotonic() - BEGAN
        try:
            within = max(PROMPT_SECONDS - spent, ASKING_SECONDS)
            return self._read_context(reader, event, session, query, within=within)
        except StackNotRunningError:
            self._deliver(self._situation)
            raise
        except BusTimeoutError as error:
            raise BusTimeoutError(
                f"{error.message} Before that, the hook's own start took {spent * 1000:.0f} ms."
            ) from error

    def _reader(self, event: Event) -> ContextReader:
        return ContextReader(self._situation, self._client.name, event.session)

    def _read_context(
        self,
        reader: ContextReader,
        event: Event,
        session: Session,
        query: str | None,
        *,
        within: float,
    ) -> str | None:
        before = session.reminded, session.shown
        context = reader.read(session, query, within=within)
        if (session.reminded, session.shown) != before:
            self._sessions.save(event.session, session)
        data_dir, problem = self._situation.settings.memory.data_dir, ""
        if reader.problems:
            error = BusError(", ".join(f"{tool}: {why}" for tool, why in reader.problems.items()))
            log_problem(data_dir, self._client.name, error)
            problem = error.logged if "recall" in reader.problems else ""
        if isinstance(event, Prompted):
            count_prompt(data_dir, self._client.name, problem)
        return context

    def _finish(self, event: TurnEnded) -> None:
        """Put the finished turn into the outbox; a later answer of the turn replaces it."""
        session = self._sessions.load(event.session)
        answer = without_contexts(event.text or "\n\n".join(session.answers))
        if not (session.query and session.query_id and session.at and answer):
            return
        if event.turn is not None and event.turn != session.query_id:
            return
        turn = Generation(
            query=session.query,
            answer=answer,
            session_id=event.session,
            query_id=session.query_id,
            metadata={"project": event.project} if event.project else {},
            shown=session.shown,
        )
        message = seal(
            turn,
            type="response",
            source=self._client.name,
            user=self._situation.user,
            session_id=event.session,
            query_id=session.query_id,
        )
        self._outbox.put(msgspec.structs.replace(message, timestamp_utc=session.at))
        self._deliver(self._situation)


def _read(client: Client, event_name: str, data: bytes) -> Event | None:
    try:
        return client.read(data)
    except msgspec.MsgspecError as error:
        problem, path = split_path(str(error))
        where = f" at {path.lstrip('.')}" if path else ""
        problem = problem.partition(" '")[0]  # without the value
        raise BadRequestError(
            f"What {client.name} sent with {event_name} cannot be read: {problem}{where}.",
            remedy=f"Update local2, unless something else than {client.name} runs this hook.",
        ) from error


def start_delivery(situation: Situation) -> None:
    """Start, in the background, a process that starts a stack and delivers turns."""
    import subprocess  # noqa: PLC0415 - few hooks need it

    command = [sys.executable, "-P", "-m", "local2.hooks.delivery", str(situation.home)]
    subprocess.Popen(  # noqa: S603 - the interpreter that runs
        command,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    )


def _begin_turn(session: Session, query: str | None, turn: str | None) -> None:
    if session.query_id is not None:  # what the start of the session showed is for its first turn
        session.shown = []
    session.query, session.query_id, session.at = query, turn or new_id(), utc_now()
    session.answers = []
