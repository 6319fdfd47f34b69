"""The table of abuses: one live stack suffers them one by one, while another user watches."""

import asyncio
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

import msgspec
from rich.table import Table

from abuse.floods import FLOODS
from abuse.long_texts import long_texts
from abuse.observer import Observer, observing
from abuse.target import Abuse, Claim, Target, envelope, target_in, turn
from harness.footprint import Memory, stack_memory
from harness.texts import notes
from local2.protocol import subjects

LONGEST_STALL = 100.0
"""Longest acceptable stall of the loop, in milliseconds."""
MAX_GROWTH = 20.0
"""Maximum acceptable memory growth, in percent."""
PATIENCE = 600.0
"""Seconds to wait until everything an abuse left behind is stored and indexed."""
STORE_TIMEOUT, POLL = 10.0, 0.2
"""Seconds that storing may take where somebody else acknowledged the message, and between looks."""
IDLE = 5.0
"""Seconds that a stack gets to come to rest before its memory is measured."""
WARM = 200
MB = 1024 * 1024


class Row(msgspec.Struct, frozen=True, kw_only=True):
    """One abuse, until everything it left behind is stored and indexed."""

    abuse: str
    done: int
    acknowledged: int
    lost: int
    stall_ms: float
    """The longest stall of the stack's loop."""
    ping_ms: float
    """The longest wait for a ping, which queues behind everything sent to the stack before it."""
    answer_ms: float
    """The longest wait of another user."""
    server_ms: float
    """The longest wait for nats-server alone."""
    late_ms: float
    """How late the observer itself woke: the machine's share of the waits."""
    refused: int
    """Errors that the other user received."""
    log_kb: float
    memory_mb: float
    """The stack's peak memory above its memory before the abuse."""
    seconds: float
    settled: bool
    """Whether everything was stored and indexed within PATIENCE."""

    @property
    def reached(self) -> bool:
        return self.stall_ms <= LONGEST_STALL and self.settled and not self.lost


class Overall(msgspec.Struct, frozen=True, kw_only=True):
    """Memory of the stack at rest, with everything indexed."""

    before: Memory
    sent: Memory
    """After all floods and texts, in the processes that received them."""
    after: Memory
    """In the processes of another start, used once: what the data alone takes."""

    @property
    def growth(self) -> float:
        """Percent by which memory after the abuse exceeds what the same data takes."""
        return 100 * (sum(self.sent) / sum(self.after) - 1)


class Results(msgspec.Struct, frozen=True, kw_only=True):
    rows: Sequence[Row]
    overall: Overall

    @property
    def reached(self) -> bool:
        return self.overall.growth <= MAX_GROWTH and all(row.reached for row in self.rows)


async def abuses(part: float) -> Results:
    """Inflict all abuses on one stack, each at `part` of its full size."""
    with tempfile.TemporaryDirectory() as name:
        async with (
            target_in(Path(name), part) as target,
            observing(target.url, target.data) as observer,
        ):
            await warm(target)
            before = await memory_at_rest(target)
            rows = [await row_of(abuse, target, observer) for abuse in (*FLOODS, *long_texts(part))]
            sent = await memory_at_rest(target)
            await target.restart_killed()
            await warm(target)
            after = await memory_at_rest(target)
    return Results(rows=rows, overall=Overall(before=before, sent=sent, after=after))


async def warm(target: Target) -> None:
    """Use once everything that allocates memory on first use."""
    texts = notes(WARM, seed=10, words=(10, 40))
    said = [{"role": "user", "content": text} for text in texts]
    for text in texts:
        await target.ask("save_memory", "warm", content=text)
    await target.ask("ingest", "warm", messages=said)
    await target.ask("add_document", "warm", title="Warm", content="\n\n".join(texts))
    told = turn("warm", "w1", "Who moved it?", "Ada did.")
    await target.stored(subjects.RESPONSE_GENERATION, told)
    await target.request(subjects.QUERY_RECEIVED, envelope("warm", {"query": "Who moved it?"}))
    for tool in ("recall", "search_memory"):
        await target.ask(tool, "warm", query="Who moved the dashboard?")


async def memory_at_rest(target: Target) -> Memory:
    """Return the memory once everything is indexed and the stack has been idle for a while."""
    await target.settled(PATIENCE)
    await asyncio.sleep(IDLE)
    return stack_memory(target.data)


async def row_of(abuse: Abuse, target: Target, observer: Observer) -> Row:
    """Run one abuse and measure its effects."""
    say(f"{abuse.name} …")
    log, memory = target.log.stat().st_size, sum(stack_memory(target.data))
    await observer.look()
    stalls = target.stalls.stat().st_size
    begun = time.perf_counter()
    claim = await abuse.work(target)
    settled = await target.settled(PATIENCE)
    seconds = time.perf_counter() - begun
    seen = await observer.look()
    stall = longest_stall(target.stalls, stalls)
    row = Row(
        abuse=abuse.name,
        done=claim.done,
        acknowledged=claim.acknowledged,
        lost=await lost_of(claim),
        stall_ms=stall * 1e3,
        ping_ms=seen.ping * 1e3,
        answer_ms=seen.answer * 1e3,
        server_ms=seen.server * 1e3,
        late_ms=seen.own * 1e3,
        refused=seen.refused,
        log_kb=(target.log.stat().st_size - log) / 1024,
        memory_mb=(seen.memory - memory) / MB,
        seconds=seconds,
        settled=settled,
    )
    say(msgspec.json.encode(row).decode())  # keeps this row if a later abuse fails
    return row


def longest_stall(file: Path, since: int) -> float:
    """Return the longest stall in seconds that the probe wrote after this many bytes."""
    with file.open(encoding="ascii") as lines:
        lines.seek(since)
        return max(map(float, lines), default=0.0)


async def lost_of(claim: Claim) -> int:
    """Count acknowledged messages that are not stored, allowing for asynchronous storage."""
    deadline = time.perf_counter() + STORE_TIMEOUT
    while (lost := await claim.missing()) and time.perf_counter() < deadline:  # noqa: ASYNC110 - it is another process
        await asyncio.sleep(POLL)
    return lost


def say(line: str) -> None:
    """Report progress on standard error."""
    print(line, file=sys.stderr, flush=True)


def values_of(results: Results) -> dict[str, object]:
    """Return the results for programs."""
    overall = results.overall
    times = {"before": overall.before, "sent": overall.sent, "after": overall.after}
    memory = {
        f"{time}_{process}_mb": size / MB
        for time, memory in times.items()
        for process, size in memory._asdict().items()
    }
    return {
        "rows": msgspec.to_builtins(results.rows),
        "overall": {**memory, "growth_percent": overall.growth},
        "reached": results.reached,
    }


def table_of(results: Results) -> Table:
    """Return the results for people."""
    table = Table(title="Abuses of one stack, one after the other", title_justify="left")
    table.add_column("abuse", no_wrap=True)
    for heading in (
        "done", "acknow-\nledged", "lost", "longest\nstall ms", "longest\nping ms",
        "worst\nanswer ms", "log kB",
        "memory MB\n(peak growth)", "",
    ):  # fmt: skip
        table.add_column(heading, justify="right", no_wrap=True)
    for row in results.rows:
        table.add_row(*_cells(row))
    table.add_section()
    table.add_row(*_last(results))
    return table


def _cells(row: Row) -> Sequence[str]:
    numbers = (
        f"{row.done:,}",
        f"{row.acknowledged:,}",
        f"{row.lost:,}",
        f"{row.stall_ms:,.0f}",
        f"{row.ping_ms:,.0f}",
        f"{row.answer_ms:,.0f}",
        f"{row.log_kb:,.0f}",
        f"{row.memory_mb:+,.0f}",
    )
    return row.abuse, *numbers, mark(reached=row.reached)


def _last(results: Results) -> Sequence[str]:
    rows, overall = results.rows, results.overall
    times = overall.before, overall.sent, overall.after
    memory = " → ".join(f"{sum(memory) / MB:,.0f}" for memory in times)
    return (
        f"all (memory at rest: before → sent → new processes, ≤ +{MAX_GROWTH:g} %)",
        f"{sum(row.done for row in rows):,}",
        f"{sum(row.acknowledged for row in rows):,}",
        f"{sum(row.lost for row in rows):,}",
        f"{max(row.stall_ms for row in rows):,.0f}",
        f"{max(row.ping_ms for row in rows):,.0f}",
        f"{max(row.answer_ms for row in rows):,.0f}",
        f"{sum(row.log_kb for row in rows):,.0f}",
        f"{memory} ({overall.growth:+.0f} %)",
        mark(reached=results.reached),
    )


def mark(*, reached: bool) -> str:
    return "✓" if reached else "✗"
