"""`local2 ingest`: store conversations from JSON lines, one message per line.

A file is read completely before any of it is sent, so that nothing is stored if a line is wrong. It
is sent in batches; sending a batch again stores nothing twice.
"""

from collections.abc import AsyncIterator, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Self

import click
import msgspec
from rich.progress import Progress, TaskID

from local2.cli.answers import NAME, Outcome, answer_on, name_of, progress, report, show_outcomes
from local2.cli.commands import PATH, asked_by_caller, command
from local2.cli.lines import STANDARD_INPUT, lines_in
from local2.cli.output import Output, run_async
from local2.client import Connection
from local2.client.access import connected
from local2.errors import BadRequestError, InvalidArgumentsError, RequestError
from local2.protocol.conversation import (
    ConversationMessage,
    IngestReport,
    SkippedMessage,
    numbered,
    session_of,
)
from local2.protocol.envelope import Sender
from local2.protocol.json_text import read_json
from local2.protocol.memory_tools import INGEST
from local2.protocol.payloads import Json
from local2.settings import Settings
from local2.sources.items import MAX_MESSAGE_BYTES, Conversation, batches, size_of
from local2.sources.messages import read_line

INTERRUPTION = "It was interrupted."
AGAIN = "Ingest the file again: nothing is stored twice."
_line: msgspec.json.Decoder[Json] = msgspec.json.Decoder(Json)


class ParsedFile(msgspec.Struct, frozen=True, kw_only=True):
    """The conversations in a file, or what is wrong with it."""

    name: str
    sessions: list[Conversation] = []
    error: str | None = None


class IngestedFile(msgspec.Struct, frozen=True, kw_only=True):
    """Numbers of new, changed, known and erased records, and the skipped messages with reasons."""

    sessions: list[str]
    remembered: int = 0
    changed: int = 0
    known: int = 0
    skipped: list[SkippedMessage] = []
    erased: int = 0

    def plus(self, batch: IngestReport) -> Self:
        return msgspec.structs.replace(
            self,
            remembered=self.remembered + batch.added,
            changed=self.changed + batch.changed,
            known=self.known + batch.known,
            skipped=[*self.skipped, *batch.skipped],
            erased=self.erased + batch.erased,
        )

    def summary(self) -> str:
        """Say the counts in a sentence, as the tool does for one batch."""
        whole = IngestReport(
            session_id="",
            ids=[],
            added=self.remembered,
            changed=self.changed,
            known=self.known,
            skipped=self.skipped,
            erased=self.erased,
        )
        return f"{whole.summary()}."


@command()
@click.argument(
    "files",
    nargs=-1,
    required=True,
    type=PATH,
    help="JSON lines with one message each; - is stdin.",
)
@click.option("--session", help="The session of lines that name none.")
@asked_by_caller()
@click.option("--allow-again", is_flag=True, help="Also store messages that were forgotten.")
def ingest(
    settings: Settings,
    output: Output,
    *,
    files: Sequence[Path],
    session: str | None,
    caller: Sender,
    allow_again: bool,
) -> None:
    parsed = []
    for file in files:
        name = "standard input" if file == STANDARD_INPUT else name_of(file)
        error, sessions = None, list[Conversation]()
        try:
            sessions = list(sessions_in(lines_in(file), session))
        except RequestError as failure:
            error = str(failure)
        parsed.append(ParsedFile(name=name, sessions=sessions, error=error))
    outcomes: list[Outcome] = []  # kept up to date in case of an interruption

    async def send() -> None:
        total = sum(len(session.messages) for file in parsed for session in file.sessions)
        async with connected(settings, name=NAME, user=caller.user) as bus:
            with progress(output) as bar:
                task = bar.add_task("", total=total)
                for file in parsed:
                    bar.update(task, description=file.name)
                    begun = len(outcomes)
                    sending = _send_file(bus, file, caller, bar, task, allow_again=allow_again)
                    async for outcome in sending:
                        outcomes[begun:] = [outcome]

    try:
        run_async(send())
    except KeyboardInterrupt:
        show_outcomes(output, outcomes)
        raise
    report(output, outcomes)


def sessions_in(lines: Iterable[bytes], session: str | None) -> Iterator[Conversation]:
    """Yield the conversations in JSON lines; lines that name no session belong to `session`.

    Their messages are numbered, so that they can be sent in parts.

    Raises:
        BadRequestError: A line is not a message; the error names the line and the reason.
    """
    by_session: dict[str | None, list[ConversationMessage]] = {}
    for number, text in enumerate(lines, start=1):
        if not text.strip():
            continue
        try:
            named, messages = read_line(read_json(text, _line.decode))
            if any(size_of(message) > MAX_MESSAGE_BYTES for message in messages):
                raise InvalidArgumentsError(f"it has more than {MAX_MESSAGE_BYTES:,} bytes")  # noqa: TRY301
        except (
            msgspec.DecodeError,
            UnicodeDecodeError,
            RecursionError,
            InvalidArgumentsError,
        ) as error:
            has_remedy = isinstance(error, InvalidArgumentsError) and error.remedy is not None
            example = "" if has_remedy else ' A line looks like {"role": "user", "content": "…"}.'
            raise BadRequestError(
                f"Line {number} is not a message: {str(error).rstrip('.')}.",
                remedy=f"Nothing of this file was sent.{example}",
            ) from error
        by_session.setdefault(named or session, []).extend(messages)
    for named, messages in by_session.items():
        yield Conversation(id=named or session_of(messages), messages=list(numbered(messages)))


async def _send_file(
    bus: Connection,
    file: ParsedFile,
    caller: Sender,
    bar: Progress,
    task: TaskID,
    *,
    allow_again: bool,
) -> AsyncIterator[Outcome]:
    """Send a file. Yield its outcome at the end, and before each batch that of an interruption."""
    if file.error is not None:
        yield Outcome(file=file.name, error=file.error)
        return
    done = IngestedFile(sessions=[session.id for session in file.sessions])
    for session in file.sessions:
        for batch in batches(session.messages):
            yield _stopped_outcome(file, done, INTERRUPTION)
            args: Json = {"messages": batch, "session_id": session.id}
            if allow_again:
                args["allow_again"] = True
            result = await answer_on(bus, INGEST.name, args, caller)
            if result.error is not None:
                yield _stopped_outcome(file, done, result.error.message)
                return
            done = done.plus(msgspec.convert(result.data, IngestReport))
            bar.update(task, advance=len(batch))
    yield Outcome(file=file.name, content=done.summary(), data=done)


def _stopped_outcome(file: ParsedFile, done: IngestedFile, why: str) -> Outcome:
    return Outcome(file=file.name, error=f"{done.summary()} Then: {why} {AGAIN}")
