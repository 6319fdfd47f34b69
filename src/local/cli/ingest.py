"""`local2 ingest`: conversations from JSON lines, one message a line."""

import sys
from codecs import BOM_UTF8
from collections.abc import Iterator, Sequence
from pathlib import Path

import msgspec
from rich.progress import Progress, TaskID

from local.bus.connection import Connection, connect
from local.bus.tool_client import call_tool
from local.cli.answers import NAME, PATIENCE
from local.cli.outcomes import Outcome, name_of, progress, report
from local.cli.output import Output, run_async
from local.errors import BadRequestError, InvalidArgumentsError
from local.memory.ingestion import Ingested, Message, numbered, session_of
from local.memory.records import in_utc
from local.memory.told import ToldMessage, message_of
from local.protocol.caller import Caller
from local.protocol.envelope import Name
from local.runtime import running_url
from local.settings import Settings

STANDARD_INPUT = Path("-")
BATCH_BYTES = 500_000
"""Of messages in one request; the bus carries 1 MB."""
LARGEST_MESSAGE = 900_000
"""Bytes of one message as JSON."""
BATCH_MESSAGES = 1_000
"""One transaction writes them, and nobody's save should wait long behind it."""


class Line(ToldMessage, frozen=True, kw_only=True):
    """One line: a message, and the session it belongs to."""

    session_id: Name | None = None


class Session(msgspec.Struct, frozen=True, kw_only=True):
    """One conversation of a file, ready to be sent in parts."""

    id: str
    messages: list[Message]


class ParsedFile(msgspec.Struct, frozen=True, kw_only=True):
    """What is in a file, or what is wrong with it."""

    name: str
    sessions: list[Session] = []
    error: str | None = None


class IngestedFile(msgspec.Struct, frozen=True, kw_only=True):
    """How many records are new, and how many were there already."""

    sessions: list[str]
    remembered: int
    known: int


def ingest(
    settings: Settings,
    output: Output,
    files: Sequence[Path],
    *,
    session: str | None,
    user: str | None,
) -> None:
    parsed = [_parsed(file, session) for file in files]
    caller = Caller(agent=NAME, user=user)
    report(output, run_async(_send_all(settings, output, parsed, caller)))


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
    said: dict[str | None, list[Message]] = {}
    for number, text in enumerate(data.removeprefix(BOM_UTF8).splitlines(), start=1):
        if text.strip():
            line = _line(text, number)
            said.setdefault(line.session_id or session, []).append(message_of(line))
    for named, messages in said.items():
        yield Session(id=named or session_of(messages), messages=list(numbered(messages)))


def _line(text: bytes, number: int) -> Line:
    try:
        line = msgspec.json.decode(text, type=Line)
        _check_size(line)
        if line.timestamp is not None:
            in_utc(line.timestamp)
    except (msgspec.DecodeError, UnicodeDecodeError, InvalidArgumentsError) as error:
        raise BadRequestError(
            f"Line {number} is not a message: {str(error).rstrip('.')}.",
            remedy='Nothing of this file was sent. A line is like {"role": "user", "content": "…"}',
        ) from error
    return line


def _check_size(line: Line) -> None:
    if len(msgspec.json.encode(line)) > LARGEST_MESSAGE:
        raise InvalidArgumentsError(f"it has more than {LARGEST_MESSAGE:,} bytes")


def batches(messages: Sequence[Message]) -> Iterator[list[Message]]:
    """The messages in their order, in as few requests as the bus carries."""
    batch: list[Message] = []
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
    settings: Settings, output: Output, files: Sequence[ParsedFile], caller: Caller
) -> list[Outcome]:
    total = sum(len(session.messages) for file in files for session in file.sessions)
    outcomes = []
    async with connect(running_url(settings), name=NAME) as bus:
        with progress(output) as bar:
            task = bar.add_task("", total=total)
            for file in files:
                bar.update(task, description=file.name)
                outcomes.append(await _send(bus, file, caller, bar, task))
    return outcomes


async def _send(
    bus: Connection, file: ParsedFile, caller: Caller, bar: Progress, task: TaskID
) -> Outcome:
    if file.error is not None:
        return Outcome(file=file.name, error=file.error)
    remembered = known = 0
    for session in file.sessions:
        for batch in batches(session.messages):
            args = {"messages": batch, "session_id": session.id}
            result = await call_tool(bus, "ingest", args, caller=caller, timeout=PATIENCE)
            if result.error is not None:
                said = (
                    f"{remembered} remembered, then: {result.error.message} "
                    "Ingest the file again: nothing is remembered twice."
                )
                return Outcome(file=file.name, error=said)
            done = msgspec.convert(result.data, Ingested)
            remembered += done.added
            known += len(done.ids) - done.added
            bar.update(task, advance=len(batch))
    return Outcome(
        file=file.name,
        content=f"{remembered} remembered, {known} known already.",
        data=IngestedFile(
            sessions=[session.id for session in file.sessions], remembered=remembered, known=known
        ),
    )
