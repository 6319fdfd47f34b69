"""`local2 add-document`: store files that everybody in the tenant can find."""

import asyncio
from collections.abc import Sequence
from pathlib import Path

import click
import msgspec

from local2.cli.answers import NAME, Outcome, answer_on, name_of, progress, report
from local2.cli.commands import PATH, command
from local2.cli.output import Output
from local2.client import Connection
from local2.client.access import connected
from local2.errors import InvalidArgumentsError, Local2Error
from local2.protocol.envelope import Sender
from local2.protocol.memories import MAX_TITLE
from local2.protocol.memory_tools import ADD_DOCUMENT, AddDocument, AddedDocument
from local2.settings import Settings
from local2.sources.documents import text_of
from local2.sources.files import file_at


@command()
@click.argument("files", nargs=-1, required=True, type=PATH, help="Text or Markdown, in UTF-8.")
@click.option("--title", help="The title. Default: the file's name.")
@click.option("--source", help="The source. Default: the file's full path.")
async def add_document(
    settings: Settings,
    output: Output,
    *,
    files: Sequence[Path],
    title: str | None,
    source: str | None,
) -> None:
    if len(files) > 1 and (title or source):
        raise InvalidArgumentsError(
            "--title and --source apply to a single document.", remedy="Name one file with them."
        )
    outcomes = []
    async with connected(settings, name=NAME) as bus:
        with progress(output) as bar:
            task = bar.add_task("", total=len(files))
            for file in files:
                bar.update(task, description=name_of(Path(file.name)))
                outcomes.append(await _add(bus, file, title, source))
                bar.update(task, advance=1)
    report(output, outcomes)


async def _add(bus: Connection, file: Path, title: str | None, source: str | None) -> Outcome:
    shown = name_of(file)
    try:
        content = await asyncio.to_thread(text_of, file_at(file, shown))
    except Local2Error as error:
        return Outcome(file=shown, error=str(error))
    args = AddDocument(
        content=content,
        title=(title or name_of(Path(file.stem)))[:MAX_TITLE],
        # The full path identifies the document wherever the command is run.
        source=source or name_of(await asyncio.to_thread(file.resolve)),
    )
    result = await answer_on(bus, ADD_DOCUMENT.name, args.given(), Sender(agent=NAME))
    if result.error is not None:
        return Outcome(file=shown, error=result.error.message)
    data = msgspec.convert(result.data, AddedDocument)
    return Outcome(file=shown, content=result.content, data=data)
