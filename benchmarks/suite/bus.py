"""`recall_topic` over the bus against a bare echo of the same size on the same nats-server."""

import tempfile
from functools import partial
from pathlib import Path

from harness.client import Ask, Asker, alternating, latency, request_of, stack_and_echo, throughput
from harness.report import Figure, a_second, milliseconds, ratio, run
from harness.texts import notes
from local2.ledger.operations.facts import LARGEST_HELD

BLOCKS = 45
REQUESTS = 200
REQUESTS_IN_A_ROUND = 1_280
IN_FLIGHT = 64
INDEXING_BLOCKS = 7
REQUESTS_WHILE_INDEXING = 400
BACKLOG = 500
TOPIC = "user.language_preference"


async def measure() -> list[Figure]:
    with tempfile.TemporaryDirectory() as folder:
        async with stack_and_echo(Path(folder)) as asker:
            await asker.tool("save_topic", request_of(topic=TOPIC, content="Elixir"))
            request = request_of(topic=TOPIC)
            recall = partial(asker.tool, "recall_topic", request)
            echo = partial(asker.echo, request, len(await recall()))
            return [
                *await one_in_flight(recall, echo),
                await not_kept(asker),
                *await many_in_flight(recall, echo),
                *await while_indexing(asker, recall),
            ]


async def one_in_flight(recall: Ask, echo: Ask) -> list[Figure]:
    ours, base = await alternating(
        BLOCKS, partial(latency, recall, REQUESTS), partial(latency, echo, REQUESTS)
    )
    return [
        ratio("p50_ratio", "p50, one in flight: recall / echo", ours, base, at_most=2.0),
        milliseconds("recall_p50_ms", "recall_topic", ours),
        milliseconds("echo_p50_ms", "echo", base),
    ]


async def not_kept(asker: Asker) -> Figure:
    """Use a fact too long for the cache: every request crosses to the reader thread."""
    long = "user.biography"
    await asker.tool("save_topic", request_of(topic=long, content="x" * (LARGEST_HELD + 1)))
    recall = partial(asker.tool, "recall_topic", request_of(topic=long))
    echo = partial(asker.echo, request_of(topic=long), len(await recall()))
    ours, base = await alternating(
        BLOCKS, partial(latency, recall, REQUESTS), partial(latency, echo, REQUESTS)
    )
    return ratio("not_kept_p50_ratio", "the same for a fact not kept in memory", ours, base)


async def many_in_flight(recall: Ask, echo: Ask) -> list[Figure]:
    ours, base = await alternating(
        BLOCKS,
        partial(throughput, recall, REQUESTS_IN_A_ROUND, IN_FLIGHT),
        partial(throughput, echo, REQUESTS_IN_A_ROUND, IN_FLIGHT),
    )
    about = f"throughput, {IN_FLIGHT} in flight: recall / echo"
    return [
        ratio("throughput_ratio", about, ours, base, at_least=0.25),
        a_second("recall_per_second", "recall_topic", ours),
        a_second("echo_per_second", "echo", base),
    ]


async def while_indexing(asker: Asker, recall: Ask) -> list[Figure]:
    """Measure, in each block, p95 while idle and p95 while a backlog is being indexed."""
    idle: list[float] = []
    busy: list[float] = []
    for block in range(INDEXING_BLOCKS):
        await asker.all_indexed()
        idle.append(await latency(recall, REQUESTS_WHILE_INDEXING, 0.95))
        await asker.save(notes(BACKLOG, seed=block), IN_FLIGHT)
        busy.append(await latency(recall, REQUESTS_WHILE_INDEXING, 0.95))
        assert (await asker.status()).waiting > 0, "The backlog was too short for the measurement."
    return [
        ratio("indexing_p95_ratio", "p95: recall while indexing / idle", busy, idle, at_most=2.0),
        milliseconds("indexing_p95_ms", "while indexing", busy),
        milliseconds("idle_p95_ms", "idle", idle),
    ]


def main() -> None:
    run(__doc__, measure)
