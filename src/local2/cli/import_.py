"""`local2 import`: store what people bring: exports of local2 or of other programs, or documents.

An export of local2 is read twice, so that all of it is checked before any of it is sent. Standard
input is checked as it arrives. Lines are stored page by page, each page whole or not at all.
Anything else is read by `sources/`. Importing something again completes an import that was
interrupted.
"""

import time
from collections import Counter
from collections.abc import Iterable, Iterator
from pathlib import Path

import click
import msgspec
from rich.progress import BarColumn, TaskProgressColumn, TextColumn, TimeRemainingColumn

from local2.cli.answers import NAME, Outcome, name_of, progress, report
from local2.cli.commands import PATH, asked_by_caller, command
from local2.cli.export import describe_counts
from local2.cli.lines import STANDARD_INPUT, lines_in
from local2.cli.output import FAILED, INTERRUPTED, Output, beginning, run_async
from local2.client.access import ask_service, connected
from local2.errors import BadRequestError, Local2Error
from local2.protocol.envelope import Sender, new_id
from local2.protocol.maintenance import ImportReport, ImportRequest
from local2.protocol.portable import (
    FORMAT,
    MAX_LINES_PER_MESSAGE,
    MESSAGE_LINE_BYTES,
    EndLine,
    HeaderLine,
    any_line,
)
from local2.protocol.services import IMPORT
from local2.settings import Settings
from local2.sources.importer import Importer
from local2.sources.opening import FORMATS, TITLES, Format, Source, opened

SHOWN_LINES = 20
"""Number of conflicts, and of refused lines, that are listed."""
SHOWN_NAMES = 3
NAME_CHARACTERS = 160
AGAIN = "Import it again to continue: nothing is stored twice."
CUT_SHORT = "The file was cut short: the last line of the export is missing."


class ImportOutcome:
    """The outcomes of the lines imported so far."""

    def __init__(self, *, dry_run: bool) -> None:
        self.dry_run = dry_run
        self.report = ImportReport(new={}, known={}, conflicts=[], refused=[])

    def add(self, page: ImportReport) -> None:
        """Add the outcomes of a page."""
        total = self.report
        for counts, more in ((total.new, page.new), (total.known, page.known)):
            for kind, count in more.items():
                counts[kind] = counts.get(kind, 0) + count
        total.replaced += page.replaced
        total.erased += page.erased
        total.unplaced += page.unplaced
        total.conflicts += page.conflicts
        total.refused += page.refused

    def summary(self) -> str:
        report = self.report
        done = "would be imported" if self.dry_run else "imported"
        known = sum(report.known.values())
        parts = [f"{describe_counts(report.new)} {done}", f"{known} already known"]
        for count, what in (
            (report.replaced, "replaced by newer versions"),
            (report.erased, "left out because they were erased or deleted here"),
            (report.unplaced, "about records that do not exist here"),
            (len(report.conflicts), "conflicts, resolved in favour of the newer version"),
            (len(report.refused), "refused"),
        ):
            parts += [f"{count} {what}"] if count else []
        return f"{', '.join(parts)}."


class LineChecker:
    """Checks the lines of a file in their order."""

    def __init__(self) -> None:
        self.number = 0
        self.records = 0
        self._counts: Counter[str] = Counter()
        self._ended = False

    def accepts(self, data: bytes) -> bool:
        """Check a line; return whether it is to be stored.

        Raises:
            BadRequestError: It is not a line of an export, or not in its proper place.
        """
        self.number += 1
        if not data.strip():
            return False
        if self._ended:
            raise BadRequestError(f"Line {self.number} follows the last line of the export.")
        line = any_line(data, self.number)
        if isinstance(line, HeaderLine) != (self.number == 1):
            raise BadRequestError(
                f"Line {self.number} is out of place: the header must be the first line of an "
                "export, and only the first."
            )
        if isinstance(line, HeaderLine):
            if line.format > FORMAT:
                raise BadRequestError(
                    f"The file has format {line.format}, from local2 {line.local2}; this "
                    f"local2 reads formats up to {FORMAT}.",
                    remedy="Update local2.",
                )
            self.records = line.records
            return False
        if isinstance(line, EndLine):
            if line.counts != dict(self._counts):
                expected, found = describe_counts(line.counts), describe_counts(dict(self._counts))
                raise BadRequestError(
                    f"Line {self.number} says that there are {expected}; the file has {found}.",
                    remedy="Export it again.",
                )
            self._ended = True
            return False
        self._counts[str(line.__struct_config__.tag)] += 1
        return True

    def finish(self) -> None:
        """Check that no lines are missing.

        Raises:
            BadRequestError: The last line of the export is missing.
        """
        if not self._ended:
            raise BadRequestError(CUT_SHORT, remedy="Export it again.")


@command("import")
@click.argument(
    "file",
    type=PATH,
    help="An export of local2, ChatGPT, Claude, mem0 or Hindsight, JSON lines of messages, or a "
    "folder of documents; - is an export of local2 on stdin.",
)
@click.option("--as", "format_", type=click.Choice(FORMATS), help="What it is. Default: it shows.")
@click.option("--mine", is_flag=True, help="Facts belong to --user, whomever a mem0 export names.")
@click.option("--dry-run", is_flag=True, help="Store nothing; only say what would be stored.")
@asked_by_caller()
def import_(
    settings: Settings,
    output: Output,
    *,
    file: Path,
    format_: Format | None,
    mine: bool,
    dry_run: bool,
    caller: Sender,
) -> None:
    """Exit with 1 if anything was refused or broken, or not all was read."""
    if file == STANDARD_INPUT or format_ == "local2":
        _import_export(settings, output, file, dry_run=dry_run, caller=caller)
        return
    with opened(file, format_) as source:
        if source.format == "local2":
            _import_export(settings, output, file, dry_run=dry_run, caller=caller)
        else:
            _import_source(settings, output, file, source, caller, mine=mine, dry_run=dry_run)


def _import_export(
    settings: Settings, output: Output, file: Path, *, dry_run: bool, caller: Sender
) -> None:
    imported = ImportOutcome(dry_run=dry_run)
    error, code = None, FAILED
    try:
        run_async(_import(settings, output, file, caller, imported))
    except Local2Error as failed:
        error = str(failed)
    except KeyboardInterrupt:
        error, code = "It was interrupted.", INTERRUPTED
    if error is not None:
        again = AGAIN if imported.report.new and not dry_run else ""
        if imported.report == ImportReport():
            error = f"{error} Nothing was imported."
        else:
            error = f"{imported.summary()} Then: {error} {again}".rstrip()
    conflicts = [
        f"{conflict.topic or conflict.document}: {conflict.kept} is current, {conflict.history} is "
        "history."
        for conflict in imported.report.conflicts
    ]
    refused = [
        f"Line {refused.line} was refused: {refused.problem}" for refused in imported.report.refused
    ]
    for lines in (conflicts, refused):
        for line in lines[:SHOWN_LINES]:
            output.text(line)
        if (more := len(lines) - SHOWN_LINES) > 0:
            output.text(f"… and {more} more; --json lists them all.")
    outcome = Outcome(
        file=name_of(file), content=imported.summary(), data=imported.report, error=error
    )
    report(output, [outcome], code)
    if refused:
        raise click.exceptions.Exit(FAILED)


async def _import(
    settings: Settings, output: Output, file: Path, caller: Sender, imported: ImportOutcome
) -> None:
    with progress(output) as bar:
        task = bar.add_task("Checking", total=None)
        total = None
        if file != STANDARD_INPUT:
            checker, total = LineChecker(), 0
            for line in lines_in(file):
                total += checker.accepts(line)
                bar.update(task, completed=total, total=checker.records)
            checker.finish()
        bar.update(task, description="Importing", completed=0, total=total)
        async with connected(settings, name=NAME, user=caller.user) as bus:
            for request in _requests(lines_in(file), dry_run=imported.dry_run):
                imported.add(await ask_service(bus, IMPORT, request, caller))
                bar.update(task, advance=len(request.lines) or (not request.cut))


def _requests(lines: Iterable[bytes], *, dry_run: bool) -> Iterator[ImportRequest]:
    """Yield the lines in requests that fit the bus; each line is checked before it is sent.

    A line that is too large for a request is sent in pieces.
    """
    checker = LineChecker()
    page: list[msgspec.Raw] = []
    first = size = 0
    for line in filter(checker.accepts, lines):
        full = size + len(line) > MESSAGE_LINE_BYTES or len(page) == MAX_LINES_PER_MESSAGE
        if page and (full or checker.number != first + len(page)):
            yield ImportRequest(number=first, lines=page, dry_run=dry_run)
            page, size = [], 0
        if len(line) > MESSAGE_LINE_BYTES:
            transfer = new_id()
            for part, start in enumerate(range(0, len(line), MESSAGE_LINE_BYTES)):
                yield ImportRequest(
                    number=checker.number,
                    piece=line[start : start + MESSAGE_LINE_BYTES],
                    transfer=transfer,
                    part=part,
                    cut=start + MESSAGE_LINE_BYTES < len(line),
                    dry_run=dry_run,
                )
            continue
        if not page:
            first = checker.number
        page.append(msgspec.Raw(line))
        size += len(line)
    if page:
        yield ImportRequest(number=first, lines=page, dry_run=dry_run)
    checker.finish()


def _import_source(
    settings: Settings,
    output: Output,
    file: Path,
    source: Source,
    caller: Sender,
    *,
    mine: bool,
    dry_run: bool,
) -> None:
    """Import anything but an export of local2."""
    output.text(f"{name_of(file)}: {TITLES[source.format]}.")
    error, code = None, FAILED
    bar_of_bytes = output.progress(
        TextColumn("{task.description}", markup=False),
        BarColumn(),
        TaskProgressColumn(),
        TextColumn("{task.fields[told]}", markup=False),
        TimeRemainingColumn(),
    )
    with bar_of_bytes as bar:
        task = bar.add_task("Importing", total=source.total_bytes, told="")
        began, sent = time.monotonic(), 0

        def show(number: int) -> None:
            nonlocal sent
            sent += number
            rate = sent / max(time.monotonic() - began, 0.001)
            told = f"{sent:,} stored, {rate:,.0f}/s"
            bar.update(task, completed=source.bytes_read, told=told)

        importer = Importer(source, caller, mine=mine, on_sent=show)

        async def send() -> None:
            async with connected(settings, name=NAME, user=caller.user) as bus:
                await importer.run(bus)

        try:
            if dry_run:
                importer.count()
            else:
                run_async(send())
        except Local2Error as failed:
            if not importer.report.messages + importer.report.facts + importer.report.documents:
                raise  # nothing was read, so there is no progress to tell
            error = str(failed)
        except KeyboardInterrupt:
            error, code = "It was interrupted.", INTERRUPTED
    done = importer.report
    for group in done.left_out:
        names = [beginning(name, NAME_CHARACTERS) for name in group.names[:SHOWN_NAMES]]
        more = ["and more; --json lists them"] if len(group.names) > SHOWN_NAMES else []
        named = "; ".join([*names, *more]).rstrip(".")
        output.text(f"Left out: {group.count:,} ({group.reason}): {named}.")
    content = done.summary()
    if error is not None:
        again = "" if dry_run else AGAIN
        error = f"{content} Then: {error} {again}".rstrip()
    report(output, [Outcome(file=name_of(file), content=content, data=done, error=error)], code)
    if done.refused:
        raise click.exceptions.Exit(FAILED)
