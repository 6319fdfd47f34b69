"""The cost of accounts, and of other tenants: many beside one, a quiet one beside a flood.

Everything runs over the bus; each stack and the flood have separate processes. `--minutes N`
prolongs the flood during which memory is measured. What the flood costs any program on the machine
is measured as well: embedding, Chroma and FTS5 called by hand, in the benchmark's own process. So
is what it costs a request that needs no search: `recall_topic`.
"""

import asyncio
import itertools
import multiprocessing
import tempfile
import time
from collections.abc import AsyncIterator, Awaitable, Iterator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from contextlib import AsyncExitStack, asynccontextmanager
from functools import partial
from pathlib import Path

from harness.accounts import as_user, make_accounts
from harness.baselines import full_text, plain_chroma
from harness.chat import messages, questions
from harness.client import USER, Ask, Asker, alternating, asking, latency, request_of
from harness.fill import fill_indexes, made_up_vectors, write_records
from harness.flooding import CLIENTS, Flood, flooding
from harness.footprint import stack_memory
from harness.processes import chroma_dir, data_dir, running_stack
from harness.report import Figure, milliseconds, percentile, ratio, run
from local2.ledger.records import NewRecord
from local2.tenants.credentials import Credentials
from local2.vectors.embedder import FloatMatrix
from local2.vectors.minilm import MiniLM
from suite.fairness import said
from suite.recall import raw

TENANTS = 100
RECORDS = 1_000
USERS = 50
BLOCKS = 9
REQUESTS = 100
FLOOD_BLOCKS = 5
FLOOD_RECALLS = 20
FLOOD_SECONDS = 30.0
POLL = 0.25
FLOODING = "flooding"
TOPIC = "user.language_preference"

Filled = Mapping[str, Sequence[NewRecord]]
"""The records of each tenant."""


async def measure(minutes: int = 0) -> list[Figure]:
    embedder = MiniLM.load(Path("models"))
    texts = messages(RECORDS, seed=1)
    vectors = made_up_vectors(embedder, texts)
    names = [f"tenant{n}" for n in range(TENANTS)]
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        few, many = names[:1], [*names, FLOODING]
        await fill(folder / "plain", {"default": said(USER, texts)}, vectors)
        await fill(folder / "few", {tenant: said(USER, texts) for tenant in few}, vectors)
        figures = await of_accounts(folder, few[0])
        await fill(folder / "many", {tenant: said(USER, texts) for tenant in many}, vectors)
        async with Stack.running(folder / "many", many) as stack:
            figures += await among_many(stack, names)
            with (
                plain_chroma(folder / "raw") as chroma,
                full_text(folder / "raw.sqlite3") as words,
            ):
                ids = [f"text{n}" for n in range(RECORDS)]
                chroma.add(ids, vectors)
                words.add(ids, texts)
                by_hand = raw(embedder, chroma, words)
                seconds = 60.0 * minutes or FLOOD_SECONDS
                return figures + await beside_a_flood(stack, names[0], by_hand, seconds)


class Stack:
    """A stack with accounts, and an agent of each of its tenants, acting for one user."""

    def __init__(
        self, folder: Path, url: str, agents: Mapping[str, Credentials], askers: Mapping[str, Asker]
    ) -> None:
        self.folder = folder
        self.askers = askers
        self._url = url
        self._agents = agents

    @classmethod
    @asynccontextmanager
    async def running(cls, folder: Path, tenants: Sequence[str]) -> AsyncIterator["Stack"]:
        """Run it on the folder, once the index has been compared with the ledger."""
        accounts = folder / "accounts"
        agents = make_accounts(accounts, tenants)
        environment = {"LOCAL2_BUS__ACCOUNTS": str(accounts)}
        async with AsyncExitStack() as resources:
            url = await resources.enter_async_context(
                running_stack(folder, environment=environment)
            )
            askers = {}
            for tenant, agent in agents.items():
                user = as_user(accounts, tenant, agent, USER)
                askers[tenant] = await resources.enter_async_context(asking(url, user))
                await askers[tenant].all_indexed()
            yield cls(folder, url, agents, askers)

    @asynccontextmanager
    async def flood(self) -> AsyncIterator[list[Flood]]:
        """Have one tenant's users flood it while the context lasts."""
        agent, accounts = self._agents[FLOODING], self.folder / "accounts"
        users = [as_user(accounts, FLOODING, agent, f"user{n}") for n in range(USERS)]
        async with flooding(self._url, users, self.folder) as ended:
            yield ended


async def fill(folder: Path, tenants: Filled, vectors: FloatMatrix) -> None:
    """Fill ledger and index as a stack would have left them; Chroma gets a separate process."""
    ids = {tenant: [one.id for one in records] for tenant, records in tenants.items()}
    with ProcessPoolExecutor(1, multiprocessing.get_context("spawn")) as other:
        indexes = asyncio.get_running_loop().run_in_executor(
            other, fill_indexes, chroma_dir(folder), ids, vectors
        )
        for tenant, records in tenants.items():
            await write_records(data_dir(folder), records, vectors, tenant=tenant)
        await indexes


async def of_accounts(folder: Path, tenant: str) -> list[Figure]:
    """Send the same requests to a stack with accounts and to one without."""
    async with (
        Stack.running(folder / "few", [tenant]) as stack,
        running_stack(folder / "plain") as url,
        asking(url) as plain,
    ):
        await plain.all_indexed()
        ours = stack.askers[tenant]
        for asker in (ours, plain):
            await asker.tool("save_topic", request_of(topic=TOPIC, content="Elixir"))
        topic = partial(Asker.tool, name="recall_topic", data=request_of(topic=TOPIC))
        return [
            *await p50("recall_topic", partial(topic, ours), partial(topic, plain)),
            *await p50("recall", recalls(ours), recalls(plain)),
        ]


async def p50(tool: str, ours: Ask, plain: Ask) -> list[Figure]:
    with_accounts, without = await alternating(
        BLOCKS, partial(latency, ours, REQUESTS), partial(latency, plain, REQUESTS)
    )
    about = f"p50 of {tool}: with accounts / without"
    return [
        ratio(f"{tool}_p50_ratio", about, with_accounts, without, at_most=1.5),
        milliseconds(f"{tool}_p50_ms", "with accounts", with_accounts),
        milliseconds(f"{tool}_plain_p50_ms", "without", without),
    ]


def recalls(*askers: Asker) -> Ask:
    """Recall as these in turn, each time with another question."""
    turns, asked = itertools.cycle(askers), requests()

    def ask() -> Awaitable[bytes]:
        return next(turns).tool("recall", next(asked))

    return ask


def requests() -> Iterator[bytes]:
    return itertools.cycle([request_of(query=text) for text in questions(500, seed=2)])


async def among_many(stack: Stack, tenants: Sequence[str]) -> list[Figure]:
    """Ask one question after the other, for one tenant, and for all of them in turn."""
    askers = [stack.askers[tenant] for tenant in tenants]
    alone, among = await alternating(
        BLOCKS,
        partial(latency, recalls(askers[0]), TENANTS, 0.95),
        partial(latency, recalls(*askers), TENANTS, 0.95),
    )
    about = f"p95: recall of {TENANTS} tenants of {RECORDS:,} records in turn / of one"
    return [
        ratio("tenants_p95_ratio", about, among, alone, at_most=1.5),
        milliseconds("tenants_p95_ms", "of them in turn", among),
        milliseconds("tenant_p95_ms", "of one", alone),
    ]


async def beside_a_flood(stack: Stack, tenant: str, by_hand: Ask, seconds: float) -> list[Figure]:
    """Measure beside one flood, not in turns: its indexing continues after it has ended."""
    asker = stack.askers[tenant]
    await asker.tool("save_topic", request_of(topic=TOPIC, content="Elixir"))
    topic = partial(asker.tool, "recall_topic", request_of(topic=TOPIC))
    asked = [partial(latency, ask, FLOOD_RECALLS, 0.95) for ask in (recalls(asker), topic, by_hand)]
    alone, topic_alone, by_hand_alone = await alternating(FLOOD_BLOCKS, *asked)
    async with stack.flood() as ended:
        watching = asyncio.create_task(memory_over(stack, seconds))
        beside, topic_beside, by_hand_beside = await alternating(FLOOD_BLOCKS, *asked)
        held = await watching
    about = f"p95: recall beside {CLIENTS} clients of another tenant / alone"
    return [
        ratio("flood_p95_ratio", about, beside, alone, at_most=3.0),
        milliseconds("flood_p95_ms", "beside them", beside),
        milliseconds("quiet_p95_ms", "alone", alone),
        milliseconds("flood_topic_p95_ms", "p95 of recall_topic beside them", topic_beside),
        milliseconds("quiet_topic_p95_ms", "alone", topic_alone),
        ratio(
            "flood_machine_p95_ratio",
            "p95 by hand, which waits for the processor only: beside them / alone",
            by_hand_beside,
            by_hand_alone,
        ),
        *memory_figures(held, seconds),
        *(
            Figure(key=f"flood_{outcome.replace(' ', '_')}", about=outcome, blocks=[float(count)])
            for outcome, count in sorted(ended[0].answers.items())
        ),
    ]


async def memory_over(stack: Stack, seconds: float) -> list[float]:
    """Sample the bytes that the stack's process holds."""
    held: list[float] = []
    until = time.monotonic() + seconds
    while time.monotonic() < until:
        held.append(float(stack_memory(data_dir(stack.folder)).main))
        await asyncio.sleep(POLL)
    return held


def memory_figures(held: Sequence[float], seconds: float) -> list[Figure]:
    """Compare the second half with the first, which shows growth over time."""
    half = len(held) // 2
    first, second = (percentile(part, 0.95) for part in (held[:half], held[half:]))
    about = f"memory in the second half of {seconds:g} s of flood / in the first"
    return [
        Figure(key="flood_memory_ratio", about=about, blocks=[second / first], at_most=1.2),
        Figure(key="flood_memory_mb", about="at most", blocks=[max(held) / 2**20], unit="MB"),
    ]


def main() -> None:
    run(__doc__, measure, "minutes")
