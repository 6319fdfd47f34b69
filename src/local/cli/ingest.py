"""`local2 ingest`: conversations from JSON lines, one message a line."""

import sys
from codecs import BOM_UTF8
from collections.abc import AsyncIterator, Iterator, Sequence
from pathlib import Path
from typing import Self

import msgspec
from rich.progress import Progress, TaskID

from local.cli.answers import NAME, answer_on
from local.cli.outcomes import Outcome, name_of, progress, report, show
from local.cli.output import Output, run_async
from local.client import Connection, connect
from local.errors import BadRequestError, InvalidArgumentsError
from local.protocol.conversation import (
    ChatMessage,
    IngestReport,
    SkippedMessage,
    numbered,
    session_of,
)
from local.protocol.envelope import Caller
from local.protocol.messages import Id, messages_of
from local.protocol.payloads import Json
from local.runtime import running_url
from local.settings import Settings

STANDARD_INPUT = Path("-")
BATCH_BYTES = 500_000
"""Of messages in one request; the bus carries 1 MB."""
LARGEST_MESSAGE = 900_000
"""Bytes of one message as JSON."""
BATCH_MESSAGES = 1_000
"""One transaction writes them, and nobody's save should wait long behind it."""
CUT_SHORT = "It was interrupted."
AGAIN = "Ingest the file again: nothing is remembered twice."


class Named(msgspec.Struct, frozen=True, kw_only=True):
    """What a line holds beside its message."""

    session_id: Id | None


class Session(msgspec.Struct, frozen=True, kw_only=True):
    """One conversation of a file, ready to be sent in parts."""

    id: str
    messages: list[ChatMessage]


class ParsedFile(msgspec.Struct, frozen=True, kw_only=True):
    """What is in a file, or what is wrong with it."""

    name: str
    sessions: list[Session] = []
    error: str | None = None


class IngestedFile(msgspec.Struct, frozen=True, kw_only=True):
    """How many records are new, newer versions, there already, and left out for which reasons."""

    sessions: list[str]
    remembered: int = 0
    changed: int = 0
    known: int = 0
    skipped: list[SkippedMessage] = []

    def plus(self, ingested: IngestReport) -> Self:
        return msgspec.structs.replace(
            self,
            remembered=self.remembered + ingested.added,
            changed=self.changed + ingested.changed,
            known=self.known + ingested.known,
            skipped=[*self.skipped, *ingested.skipped],
        )

    def told(self) -> str:
        whole = IngestReport(
            session_id="",
            ids=[],
            added=self.remembered,
            changed=self.changed,
            known=self.known,
            skipped=self.skipped,
        )
        return f"{whole.summary()}."


def ingest(
    settings: Settings,
    output: Output,
    files: Sequence[Path],
    caller: Caller,
    *,
    session: str | None,
) -> None:
    parsed = [_parsed(file, session) for file in files]
    outcomes: list[Outcome] = []
    try:
        run_async(_send_all(settings, output, parsed, caller, outcomes))
    except KeyboardInterrupt:
        show(output, outcomes)
        raise
    report(output, outcomes)


def _parsed(file: Path, session: str | None) -> ParsedFile:
    name = "standard input" if file == STANDARD_INPUT else name_of(file)
    try:
        data = sys.stdin.buffer.read() if file == STANDARD_INPUT else file.read_bytes()
        return ParsedFile(name=name, sessions=list(sessions_in(data, session)))
    except OSError as error:
        return ParsedFile(name=name, error=f"It cannot be read: {error.strerror}.")
    except BadRequestError as error:
        return ParsedFile(name=name, error=str(error))


def sessions_in(data: bytes, session: str | None) -> Iterator[Session]:
    """The conversations that JSON lines hold; `session` is that of the lines that name none.

    Raises:
        BadRequestError: A line is not a message; says which, and why.
    """
    said: dict[str | None, list[ChatMessage]] = {}
    for number, text in enumerate(data.removeprefix(BOM_UTF8).splitlines(), start=1):
        if text.strip():
            named, messages = _line(text, number)
            said.setdefault(named or session, []).extend(messages)
    for named, messages in said.items():
        yield Session(id=named or session_of(messages), messages=list(numbered(messages)))


def _line(text: bytes, number: int) -> tuple[str | None, list[ChatMessage]]:
    """The session that the line names, and its message, behind results that it brings."""
    try:
        line = msgspec.json.decode(text, type=Json)
        named = msgspec.convert({"session_id": line.pop("session_id", None)}, Named).session_id
        messages = [_fitting(message) for message in messages_of(line)]
    except (msgspec.DecodeError, UnicodeDecodeError, InvalidArgumentsError) as error:
        raise BadRequestError(
            f"Line {number} is not a message: {str(error).rstrip('.')}.",
            remedy='Nothing of this file was sent. A line is like {"role": "user", "content": "…"}',
        ) from error
    return None if named is None else str(named), messages


def _fitting(message: ChatMessage) -> ChatMessage:
    if len(msgspec.json.encode(message)) > LARGEST_MESSAGE:
        raise InvalidArgumentsError(f"it has more than {LARGEST_MESSAGE:,} bytes")
    return message


def batches(messages: Sequence[ChatMessage]) -> Iterator[list[ChatMessage]]:
    """The messages in their order, in as few requests as the bus carries."""
    batch: list[ChatMessage] = []
    size = 0
    for message in messages:
        length = len(msgspec.json.encode(message))
        if batch and (size + length > BATCH_BYTES or len(batch) == BATCH_MESSAGES):
            yield batch
            batch, size = [], 0
        batch.append(message)
        size += length
    if batch:
        yield batch


async def _send_all(
    settings: Settings,
    output: Output,
    files: Sequence[ParsedFile],
    caller: Caller,
    outcomes: list[Outcome],
) -> None:
    """Send file after file; `outcomes` says at any time what became of those begun."""
    total = sum(len(session.messages) for file in files for session in file.sessions)
    async with connect(running_url(settings), name=NAME) as bus:
        with progress(output) as bar:
            task = bar.add_task("", total=total)
            for file in files:
                bar.update(task, description=file.name)
                begun = len(outcomes)
                async for outcome in _sent(bus, file, caller, bar, task):
                    outcomes[begun:] = [outcome]


async def _sent(
    bus: Connection, file: ParsedFile, caller: Caller, bar: Progress, task: TaskID
) -> AsyncIterator[Outcome]:
    """What became of the file so far, before each request and at the end."""
    if file.error is not None:
        yield Outcome(file=file.name, error=file.error)
        return
    done = IngestedFile(sessions=[session.id for session in file.sessions])
    for session in file.sessions:
        for batch in batches(session.messages):
            yield _stopped(file, done, CUT_SHORT)
            args = {"messages": batch, "session_id": session.id}
            result = await answer_on(bus, "ingest", args, caller)
            if result.error is not None:
                yield _stopped(file, done, result.error.message)
                return
            done = done.plus(msgspec.convert(result.data, IngestReport))
            bar.update(task, advance=len(batch))
    yield Outcome(file=file.name, content=done.told(), data=done)


def _stopped(file: ParsedFile, done: IngestedFile, why: str) -> Outcome:
    return Outcome(file=file.name, error=f"{done.told()} Then: {why} {AGAIN}")
