"""`local2 doctor` and `local2 reindex`: find out what is missing, and rebuild the vector index."""

import asyncio
import sys

from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn
from rich.table import Table

from local.cli.offline import stack_bus
from local.cli.output import FAILED, Output, run_async, shown
from local.client import Connection
from local.client.maintenance import memory_status, start_reindex
from local.errors import VectorError
from local.examination import examined
from local.examination.result import Verdict
from local.logs import logging_to
from local.protocol.maintenance import MemoryStatus
from local.settings import Settings

MARKS: dict[Verdict, str] = {"ok": "[green]✓[/]", "note": "[yellow]•[/]", "broken": "[red]✗[/]"}


POLL = 0.2
"""Seconds between two looks at the status, for a progress bar that moves."""
WORKER_PATIENCE = 60.0
"""Seconds for the vector worker to start; the first start may download a model."""


def doctor(settings: Settings, output: Output, *, deep: bool = False) -> None:
    findings = run_async(examined(settings, deep=deep))
    output.data(findings)
    table = Table("", "What", "Finding")
    table.add_column("What to do", overflow="fold")
    for finding in findings:
        mark = MARKS[finding.verdict]
        table.add_row(mark, *map(shown, (finding.name, finding.detail, finding.remedy or "")))
    output.table(table)
    if any(finding.verdict == "broken" for finding in findings):
        sys.exit(FAILED)


def reindex(
    settings: Settings, output: Output, embedder: str | None = None, *, wait: bool = True
) -> None:
    logs = settings.memory.data_dir / "logs" / "reindex.log"
    with logging_to(logs):
        status = run_async(_reindex(settings, output, embedder, wait=wait))
    output.data(status)
    if status.next is not None:
        output.text(
            f"{status.next.waiting} records have yet to be embedded by {status.next.embedder}; "
            f"until then {status.embedder} serves."
        )
        return
    replaced = status.records - status.indexed
    output.text(
        f"{status.indexed} records are indexed by {status.embedder}; "
        f"{replaced} replaced ones are kept in the ledger only."
    )


async def _reindex(
    settings: Settings, output: Output, embedder: str | None, *, wait: bool
) -> MemoryStatus:
    async with stack_bus(settings, output, "rebuilding") as bus:
        await _worker_ready(bus)
        status = await start_reindex(bus, embedder)
        if embedder is not None:
            return await _change(bus, output, status, embedder, wait=wait)
        if status.problem is not None:
            raise VectorError(f"The index was not rebuilt: {status.problem}")
        return await _follow(bus, output, status)


async def _change(
    bus: Connection, output: Output, status: MemoryStatus, embedder: str, *, wait: bool
) -> MemoryStatus:
    """Wait until another embedder serves."""
    if status.problem is not None and (status.next is None or status.next.embedder != embedder):
        raise VectorError(f"Nothing was changed: {status.problem}")
    if status.next is None:
        return status
    wanted = status.next.embedder
    with _progress(output, "Embedding") as progress:
        task = progress.add_task("Embedding", total=status.indexed)
        while wait and status.next is not None and status.next.embedder == wanted:
            progress.update(
                task, total=status.indexed, completed=status.indexed - status.next.waiting
            )
            await asyncio.sleep(POLL)
            status = await memory_status(bus)
    if wait and status.embedder != wanted:
        raise VectorError(f"{wanted} does not serve: somebody gave it up meanwhile.")
    return status


async def _worker_ready(bus: Connection) -> None:
    """Wait for the vector worker; one with another embedder counts, since a reindex mends that."""
    deadline = asyncio.get_running_loop().time() + WORKER_PATIENCE
    while (status := await memory_status(bus)).embedder is None:
        if asyncio.get_running_loop().time() > deadline:
            raise VectorError(f"The vector worker did not start: {status.problem}")
        await asyncio.sleep(POLL)


async def _follow(bus: Connection, output: Output, status: MemoryStatus) -> MemoryStatus:
    with _progress(output, "Indexing") as progress:
        task = progress.add_task("Indexing", total=status.indexed + status.waiting)
        while status.waiting:
            await asyncio.sleep(POLL)
            status = await memory_status(bus)
            progress.update(task, completed=status.indexed, total=status.indexed + status.waiting)
        progress.update(task, completed=status.indexed)
    return status


def _progress(output: Output, doing: str) -> Progress:
    columns = (TextColumn(doing), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    return Progress(*columns, console=output.errors, disable=output.json)
