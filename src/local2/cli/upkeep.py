"""`local2 doctor`, `retention` and `reindex`: examine the stack, and rebuild its index.

The running stack does the work. If none runs, one is started for a rebuild. Health checks call
`doctor --ready` repeatedly, so the other checks are imported only when they run.
"""

import asyncio
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from textwrap import wrap
from typing import Any

import click
import msgspec
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

from local2.cli.answers import MIN_COLUMNS, NAME, ask_stack, show_entry, shown_time
from local2.cli.commands import command
from local2.cli.output import FAILED, Output, columns, one_line, styled
from local2.client import Connection
from local2.client.access import ask_service, connected
from local2.errors import NoRespondersError, StackNotRunningError, StorageError, VectorError
from local2.home import require_own_stack
from local2.logs import logging_to
from local2.protocol import subjects
from local2.protocol.maintenance import MemoryStatus, Readiness, Reindex, Verdict
from local2.protocol.payloads import Empty
from local2.protocol.services import READY, REINDEX, RETENTION, STATUS, ServiceDeclaration
from local2.settings import Settings
from local2.tenants.directory import Entries

MARKS: dict[Verdict, tuple[str, str]] = {
    "ok": ("✓", "green"),
    "note": ("•", "yellow"),
    "broken": ("✗", "red"),
}
POLL = 0.5
"""Seconds between two readings of the status: often enough for a progress bar. A status counts
everything that waits (50 ms for 200,000 records), so that five a second would slow the indexing."""
READY_PATIENCE = 2.0
"""Seconds to wait for a server; a running one answers at once."""
LEDGER_PATIENCE = 20.0
"""Seconds to wait for a ledger that cannot be read, such as a database that is started again."""
WORKER_PATIENCE = 60.0
"""Seconds to wait for the vector worker to start; the first start may download a model."""


@command()
@click.option("--deep", is_flag=True, help="Also read the whole ledger; no stack may be running.")
@click.option(
    "--ready", is_flag=True, help="Only check whether the stack serves; exit with 1 if not."
)
async def doctor(settings: Settings, output: Output, *, deep: bool, ready: bool) -> None:
    if ready:
        require_own_stack(settings)
        # With accounts, each tenant is asked for its own requests.
        entries = Entries.read(settings.bus.accounts)
        services = [READY]
        if entries is not None:
            services = [
                msgspec.structs.replace(READY, subject=subjects.from_tenant(tenant, READY.subject))
                for tenant in entries.tenants
            ]
        async with connected(settings, name=NAME, patience=READY_PATIENCE, operator=True) as bus:
            replies = await asyncio.gather(
                *(ask_service(bus, service, Empty()) for service in services)
            )
        stacks = sorted({stack for reply in replies for stack in reply.stacks})
        require_own_stack(settings, stacks)
        reasons = [reason for reply in replies for reason in reply.reasons]
        ready = all(reply.ready for reply in replies)
        answer = Readiness(ready=ready, reasons=reasons, stacks=stacks)
        output.data(answer)
        output.text("ready" if answer.ready else " ".join(answer.reasons))
        if not answer.ready:
            raise click.exceptions.Exit(FAILED)
        return
    # Imported here because `doctor --ready` does not need it.
    from local2.examination import run_checks  # noqa: PLC0415

    findings = await run_checks(settings, deep=deep)
    output.data(findings)
    for finding in findings:
        mark, colour = MARKS[finding.verdict]
        _show_marked(output, styled(mark, fg=colour), f"{finding.name}: {finding.detail}")
        if finding.remedy:
            _show_marked(output, styled("  →", dim=True), finding.remedy)
    if any(finding.verdict == "broken" for finding in findings):
        raise click.exceptions.Exit(FAILED)


def _show_marked(output: Output, mark: str, text: str) -> None:
    """Print a text behind a mark; its paths and ids stay whole, and can be copied."""
    margin = len(click.unstyle(mark)) + 1
    width = max(columns() - margin, MIN_COLUMNS)
    lines = wrap(one_line(text), width, break_long_words=False, break_on_hyphens=False)
    output.line(f"{mark} " + f"\n{' ' * margin}".join(lines))


@command()
async def retention(settings: Settings, output: Output) -> None:
    report = await ask_stack(settings, RETENTION, Empty())
    output.data(report)
    is_on = report.anonymise == "on"
    will_be = "are anonymised within the hour" if is_on else "would be anonymised"
    output.text(
        f"{report.due:,} memories, retired {report.after_days} days ago or longer, {will_be} "
        f"(anonymise: {report.anonymise})."
    )
    for record in report.records:
        when = shown_time(record.retired_at) if record.retired_at else ""
        show_entry(output, f"{when}  {record.retired_why or ''}", record.id, record.content)


@command()
@click.option(
    "--embedder",
    help="Change to another embedder while the present one serves: minilm, an Ollama "
    "model, or openai:MODEL of an endpoint. Naming the present one cancels a change.",
)
@click.option("--wait/--no-wait", default=True, help="Wait until the other embedder serves.")
async def reindex(settings: Settings, output: Output, *, embedder: str | None, wait: bool) -> None:
    logs = settings.memory.data_dir / "logs" / "reindex.log"
    with logging_to(logs):
        async with stack_bus(settings, output, "rebuilding") as bus:
            # With whichever embedder: a reindex corrects that.
            deadline = asyncio.get_running_loop().time() + WORKER_PATIENCE
            while (status := await _status_of(bus)).embedder is None:
                if asyncio.get_running_loop().time() > deadline:
                    raise VectorError(f"The vector worker did not start: {status.problem}")
                await asyncio.sleep(POLL)
            status = await ask_service(bus, REINDEX, Reindex(embedder=embedder))
            if embedder is not None:
                status = await _change_embedder(bus, output, status, embedder, wait=wait)
            elif status.problem is not None:
                raise VectorError(f"The index was not rebuilt: {status.problem}")
            else:
                with _progress(output, "Indexing") as progress:
                    total = status.indexed + status.waiting
                    task = progress.add_task("Indexing", total=total)
                    while status.waiting:
                        await asyncio.sleep(POLL)
                        status = await _status_of(bus)
                        total = status.indexed + status.waiting
                        progress.update(task, completed=status.indexed, total=total)
                    progress.update(task, completed=status.indexed)
    output.data(status)
    if status.next is not None:
        output.text(
            f"{status.next.embedder} still has to embed {status.next.waiting} records; "
            f"until then {status.embedder} serves."
        )
        return
    replaced = status.records - status.indexed
    output.text(
        f"{status.indexed} records are indexed by {status.embedder}; "
        f"{replaced} replaced records are only in the ledger."
    )


async def _status_of(bus: Connection) -> MemoryStatus:
    """The status, with some patience for a ledger that cannot be read: it would count nothing."""
    deadline = asyncio.get_running_loop().time() + LEDGER_PATIENCE
    while (status := await ask_service(bus, STATUS, Empty())).ledger_problem is not None:
        if asyncio.get_running_loop().time() > deadline:
            raise StorageError(status.ledger_problem)
        await asyncio.sleep(POLL)
    return status


async def _change_embedder(
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
            status = await _status_of(bus)
    if wait and status.embedder != wanted:
        raise VectorError(f"{wanted} does not serve: somebody cancelled the change meanwhile.")
    return status


def _progress(output: Output, doing: str) -> Progress:
    return output.progress(
        TextColumn(doing), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn()
    )


@asynccontextmanager
async def stack_bus(
    settings: Settings,
    output: Output,
    doing: str,
    *,
    probe: ServiceDeclaration[Any, Any] = STATUS,
    operator: bool = False,
) -> AsyncIterator[Connection]:
    """Connect to the running stack; if there is none, start one without models.

    `probe`: a service that every stack answers. With `operator`, connect as the operator instead of
    as a tenant.
    """
    async with AsyncExitStack() as resources:
        try:
            bus = await resources.enter_async_context(
                connected(settings, name="cli", operator=operator)
            )
            await ask_service(bus, probe, Empty())
        except (StackNotRunningError, NoRespondersError):
            from local2.stack.app import open_stack  # noqa: PLC0415 - needed without a stack only

            output.text(f"No stack is running; {doing} offline.")
            logs = settings.memory.data_dir / "logs"
            stack = await resources.enter_async_context(
                open_stack(settings, log_folder=logs, with_generator=False, with_models=False)
            )
            bus = stack.bus
        yield bus
