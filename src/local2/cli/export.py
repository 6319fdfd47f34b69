"""`local2 export`: write all memories of a tenant, or of a scope, as JSON lines.

The file is written as `FILE.part` and renamed once it is complete, so that an existing backup stays
intact until then.
"""

import sys
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import BinaryIO, get_args

import click
import msgspec

from local2._version import __version__
from local2.cli.answers import NAME, Outcome, name_of, progress, report
from local2.cli.commands import NamedPath, asked_by_caller, command
from local2.cli.output import Output
from local2.client.access import ask_service, connected
from local2.errors import UnwritableError
from local2.protocol.envelope import Sender, utc_now
from local2.protocol.maintenance import ExportRequest
from local2.protocol.memories import PERSONAL, OwnerScope
from local2.protocol.portable import FORMAT, EndLine, HeaderLine, Line
from local2.protocol.services import EXPORT
from local2.settings import Settings

STANDARD_OUTPUT = Path("-")


class Exported(msgspec.Struct, frozen=True, kw_only=True):
    """The number of lines of each type."""

    counts: dict[str, int]


def describe_counts(counts: dict[str, int]) -> str:
    """Say how many there are of each type, e.g. `3 records, 1 note`."""
    counted = []
    for kind, count in counts.items():
        plural = f"{kind}es" if kind.endswith("s") else f"{kind}s"
        is_same = count == 1 or kind in {"audit", "feedback"}
        counted.append(f"{count} {kind if is_same else plural}")
    return ", ".join(counted) or "0"


@command()
@click.argument(
    "file",
    type=NamedPath(path_type=Path, dir_okay=False),
    help="Where to write JSON lines; - is stdout.",
)
@click.option(
    "--scope",
    type=click.Choice(get_args(OwnerScope)),
    help="Only memories of --session, --user or --agent, or those of the whole tenant.",
)
@click.option("--vectors", is_flag=True, help="Include vectors, so that none is computed again.")
@asked_by_caller(session="The session, with --scope session.")
async def export(
    settings: Settings,
    output: Output,
    *,
    file: Path,
    scope: OwnerScope | None,
    vectors: bool,
    caller: Sender,
) -> None:
    request = ExportRequest(scope=scope, vectors=vectors)
    counts: Counter[str] = Counter()
    with _output_file(file) as target:
        async with connected(settings, name=NAME, user=caller.user) as bus:
            page = await ask_service(bus, EXPORT, request, caller)
            header = HeaderLine(
                format=FORMAT,
                local2=__version__,
                exported_at=utc_now(),
                records=page.records or 0,
                scope=scope,
                user=caller.user if scope in PERSONAL else None,
                session=caller.session_id if scope == "session" else None,
                agent=caller.agent if scope == "agent" else None,
            )
            _write(target, header)
            with progress(output) as bar:
                task = bar.add_task("Exporting", total=page.records)
                while True:
                    target.writelines(bytes(line) + b"\n" for line in page.lines)
                    if page.piece:
                        target.write(page.piece if page.cut else page.piece + b"\n")
                    counts.update(page.counts)
                    bar.update(task, completed=counts["record"])
                    if page.cursor is None:
                        break
                    request = msgspec.structs.replace(request, cursor=page.cursor)
                    page = await ask_service(bus, EXPORT, request, caller)
        _write(target, EndLine(counts=dict(counts)))
        target.flush()
    content = f"{describe_counts(counts)} exported."
    if file == STANDARD_OUTPUT:  # it must contain nothing but the lines
        output.errors.print(content, markup=False)
    else:
        report(output, [Outcome(file=name_of(file), content=content, data=Exported(counts=counts))])


@contextmanager
def _output_file(file: Path) -> Iterator[BinaryIO]:
    """Open the file to write to; it gets its name at the end, or is deleted after a failure."""
    if file == STANDARD_OUTPUT:
        yield sys.stdout.buffer
        return
    part = file.with_name(f"{file.name}.part")
    try:
        with part.open("wb") as target:
            yield target
        part.replace(file)
    except OSError as error:
        raise UnwritableError(file, error, instead="another file") from error
    finally:
        with suppress(OSError):  # it has its name, or was never created
            part.unlink()


def _write(target: BinaryIO, line: Line) -> None:
    target.write(msgspec.json.encode(line) + b"\n")
