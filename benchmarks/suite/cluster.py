"""Kill stacks, nats-servers and PostgreSQL at random: nothing is lost, doubled or out of order.

Three stacks, three nats-servers and a PostgreSQL run on loopback. Writers ingest messages and
report turns, each in order in sessions of its own, and repeat what was not acknowledged; readers
look for what was. Meanwhile one process after the other is killed with SIGKILL, and started again;
or a nats-server is stopped for ten seconds, so that it is silent as after a failure of the network,
and goes on. In the end, what the database has is compared with what was acknowledged. `--kills 200`
goes on longer.
"""

import asyncio
import os
import re
import signal
import socket
import sys
import tempfile
import time
from collections import Counter, defaultdict
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from itertools import cycle, islice, pairwise
from pathlib import Path
from random import Random
from typing import Protocol

import msgspec
import psycopg

from harness.processes import STACK, environment_of
from harness.report import Figure, run
from local2.bus.connection import BusMessage, Connection, connect
from local2.bus.server import find_server
from local2.bus.streams import publish_durably, turns_stored
from local2.client.tools import call_tool
from local2.errors import Local2Error
from local2.protocol.envelope import Sender, encode, seal
from local2.protocol.payloads import Generation
from local2.protocol.subjects import discovery
from postgres_server import PostgresServer, postgres_server

KILLS = 12
STACKS, SERVERS, WRITERS, READERS = 3, 3, 8, 8
ATTEMPT = 3.0
"""Seconds until a request without an answer is repeated."""
DOWN, SILENT = (0.2, 2.0), (10.0, 10.0)
"""Seconds for which a killed process stays away, at least and at most, and a silent one."""
SETTLING = 4.0
"""Seconds between two kills, with all stacks serving: of each kind, the loss of one is borne, and
no more."""
RESTART = 0.5
"""Seconds until a process that has ended by itself is started again."""
START_PATIENCE = 120.0
PAUSE, TURN_PAUSE = 0.02, 0.25
"""Seconds between two requests of a client, and two turns: streams take more than ledgers store."""
POLL, ANSWERED = 0.1, 0.5
"""Seconds between two looks, and until every stack has answered a question to all."""
LONGEST = 5.0
WHEN = {
    "nothing": "before the first failure",
    "stack": "after the kill of a stack",
    "nats": "after the kill of a nats-server",
    "postgres": "after the kill of PostgreSQL",
    "silence": "while a nats-server is silent",
}
NUMBER = re.compile(r"number (\d+)")
STORED = """SELECT session_id, content FROM record
            WHERE kind = 'chat_message' AND superseded_by IS NULL
            ORDER BY session_id, stands"""


class Miss(msgspec.Struct, frozen=True, kw_only=True):
    """An answer without a text that had been acknowledged before it was asked for."""

    age: float
    """Seconds since the acknowledgement."""
    killed: str
    since_kill: float
    """Seconds since that, or since clients began."""
    degraded: bool
    reason: str | None

    def __str__(self) -> str:
        answer = f"degraded: {self.reason}" if self.degraded else "not degraded"
        return f"not found {WHEN[self.killed]} ({self.since_kill:.3f} s), {answer}"


class Load(msgspec.Struct, kw_only=True):
    """What clients have done so far."""

    acknowledged: defaultdict[str, list[str]] = msgspec.field(
        default_factory=lambda: defaultdict(list)
    )
    """The texts of each session, in order."""
    acknowledged_at: dict[str, float] = {}
    """When the newest of each session was acknowledged."""
    waits: defaultdict[str, list[float]] = msgspec.field(default_factory=lambda: defaultdict(list))
    """Seconds until a tool answered, with repetitions, by what was killed last."""
    turns: list[float] = []
    """Seconds until a stream acknowledged a turn: servers of a bus first elect another leader."""
    last_answer: float = 0.0
    gaps: defaultdict[str, list[float]] = msgspec.field(default_factory=lambda: defaultdict(list))
    """Seconds in which no client had an answer, by what was killed last."""
    reads: int = 0
    missed: list[Miss] = []
    killed: str = "nothing"
    killed_at: float = msgspec.field(default_factory=time.perf_counter)
    """When it was, or when clients began."""
    is_over: bool = False

    async def until_answered(
        self, ask: Callable[[], Awaitable[bool]], *, by_tool: bool = True
    ) -> None:
        """Repeat a request until it is answered, and note how long that took."""
        begun = time.perf_counter()
        while True:
            with suppress(Local2Error, TimeoutError):
                if await ask():
                    break
            await asyncio.sleep(PAUSE)
        now = time.perf_counter()
        waits = self.waits[self.killed] if by_tool else self.turns
        waits.append(now - begun)
        self.gaps[self.killed].append(now - max(self.last_answer, begun))
        self.last_answer = now


class Killable(Protocol):
    """What fails, for some seconds, and works again."""

    kind: str
    down: tuple[float, float]

    async def start(self) -> None: ...
    async def kill(self) -> None: ...


class Child:
    """A child process that is killed and started again; one that ends by itself is, too."""

    down = DOWN

    def __init__(self, kind: str, command: Sequence[str], log: Path, **environment: str) -> None:
        self.kind = kind
        self._command = command
        self._log = log
        self._environment = {**os.environ, **environment}
        self._process: asyncio.subprocess.Process | None = None
        self._watching: asyncio.Task[None] | None = None

    async def start(self) -> None:
        self._watching = asyncio.create_task(self._restart())

    async def _restart(self) -> None:
        """Do what a service manager does."""
        while True:
            process = await self._run()
            await process.wait()
            await asyncio.sleep(RESTART)

    async def _run(self) -> asyncio.subprocess.Process:
        with self._log.open("ab") as output:
            self._process = process = await asyncio.create_subprocess_exec(
                *self._command,
                stdin=asyncio.subprocess.DEVNULL,
                stdout=output,
                stderr=output,
                env=self._environment,
                start_new_session=True,  # Ctrl-C reaches only the benchmark, which ends it
            )
        return process

    async def kill(self) -> None:
        await self.stop(signal.SIGKILL)

    async def stop(self, by: signal.Signals = signal.SIGTERM) -> None:
        if self._watching is not None:
            self._watching.cancel()
            await asyncio.wait((self._watching,))
        self.send(by)
        self.send(signal.SIGCONT)  # a silent one would not end
        if self._process is not None:
            await self._process.wait()

    def send(self, sent: signal.Signals) -> None:
        if self._process is not None and self._process.returncode is None:
            self._process.send_signal(sent)


class Silence:
    """A server that neither answers nor closes its connections for a while."""

    kind = "silence"
    down = SILENT

    def __init__(self, server: Child) -> None:
        self._server = server

    async def start(self) -> None:
        self._server.send(signal.SIGCONT)

    async def kill(self) -> None:
        self._server.send(signal.SIGSTOP)


class Postgres:
    """The PostgreSQL server, which is killed and started again, too."""

    kind = "postgres"
    down = DOWN

    def __init__(self, server: PostgresServer) -> None:
        self._server = server

    async def start(self) -> None:
        await asyncio.to_thread(self._server.start)

    async def kill(self) -> None:
        await asyncio.to_thread(self._server.kill)


class Cluster(msgspec.Struct, frozen=True, kw_only=True):
    bus: str
    ledger: str
    processes: list[Killable]


@asynccontextmanager
async def running_cluster(folder: Path) -> AsyncIterator[Cluster]:
    """Run three stacks on three nats-servers and a PostgreSQL."""
    async with AsyncExitStack() as resources:
        server = resources.enter_context(postgres_server())
        server.look_after_itself()
        ledger = resources.enter_context(server.new_database())
        clients, routes = free_ports(SERVERS), free_ports(SERVERS)
        bus = ",".join(f"nats://127.0.0.1:{port}" for port in clients)
        listed = ", ".join(f"nats://127.0.0.1:{port}" for port in routes)
        children = list[Child]()
        for number in range(SERVERS):
            own = folder / f"nats{number}"
            own.mkdir()
            config = own / "server.conf"
            config.write_text(
                f'server_name: "n{number}"\nlisten: "127.0.0.1:{clients[number]}"\n'
                'ping_interval: "5s"\n'
                f'jetstream {{ store_dir: "{own}", sync_interval: always }}\n'
                f'cluster {{ name: local2, listen: "127.0.0.1:{routes[number]}"\n'
                f'            routes: [{listed}], ping_interval: "1s" }}\n'
            )
            command = (str(find_server()), "-c", str(config))
            children.append(Child("nats", command, own / "server.log"))
        for number in range(STACKS):
            own = folder / f"stack{number}"
            environment = {
                **environment_of(own),
                "LOCAL2_BUS__URL": bus,
                "LOCAL2_MEMORY__LEDGER": ledger,
            }
            children.append(
                Child("stack", (sys.executable, str(STACK)), own / "stack.log", **environment)
            )
        for process in children:
            resources.push_async_callback(process.stop)
            await process.start()
            if process is children[SERVERS - 1]:
                await has_leader(bus)
        silences = map(Silence, children[:SERVERS])
        yield Cluster(bus=bus, ledger=ledger, processes=[*children, Postgres(server), *silences])


def free_ports(count: int) -> list[int]:
    sockets = [socket.create_server(("127.0.0.1", 0)) for _ in range(count)]
    ports = [int(opened.getsockname()[1]) for opened in sockets]
    for opened in sockets:
        opened.close()
    return ports


async def has_leader(bus: str) -> None:
    """Wait until the servers have agreed on one that leads JetStream."""
    async with asyncio.timeout(START_PATIENCE), connect(bus, name="cluster") as connection:
        while True:
            with suppress(Exception):  # whatever a server says that is still starting
                await connection.client.jetstream().account_info()
                return
            await asyncio.sleep(POLL)


async def ingest_in_order(bus: Connection, load: Load, writer: int) -> None:
    """Ingest message after message into one session, each until it is acknowledged."""
    session = f"chat {writer}"
    caller = Sender(user=f"user{writer}", agent="cluster", session_id=session)
    while not load.is_over:
        number = len(load.acknowledged[session])
        text = f"The message number {number} of writer {writer} is about w{writer}x{number}."
        message = {"role": "user", "content": text, "id": f"{session} {number}"}

        async def ask(message: dict[str, str] = message) -> bool:
            arguments = {"messages": [message]}
            return (await call_tool(bus, "ingest", arguments, caller=caller, timeout=ATTEMPT)).ok

        await load.until_answered(ask)
        load.acknowledged[session].append(text)
        load.acknowledged_at[session] = time.perf_counter()
        await asyncio.sleep(PAUSE)


async def report_in_order(bus: Connection, load: Load, writer: int) -> None:
    """Report turn after turn of one session, each until the stream acknowledges it."""
    session = f"turns {writer}"
    while not load.is_over:
        number = len(load.acknowledged[session]) // 2
        turn = Generation(
            query=f"Question number {number} of writer {writer}?",
            answer=f"Answer number {number} of writer {writer}.",
            session_id=session,
            query_id=f"{session} {number}",
        )
        data = encode(seal(turn, type="response", source="cluster", user=f"user{writer}"))

        async def ask(data: bytes = data, message_id: str = f"{session} {number}") -> bool:
            await publish_durably(bus, "memory.turn", data, message_id=message_id, timeout=ATTEMPT)
            return True

        await load.until_answered(ask, by_tool=False)
        load.acknowledged[session] += [turn.query, turn.answer]
        await asyncio.sleep(TURN_PAUSE)


async def read_on(bus: Connection, load: Load, reader: int) -> None:
    """Look for what a writer has just had acknowledged."""
    caller = Sender(user=f"user{reader}", agent="cluster", session_id="reading")
    session = f"chat {reader}"
    while not load.is_over:
        if not load.acknowledged[session]:
            await asyncio.sleep(POLL)
            continue
        number = len(load.acknowledged[session]) - 1
        text, since = load.acknowledged[session][number], load.acknowledged_at[session]
        misses = list[Miss]()

        async def ask(
            misses: list[Miss] = misses,
            query: str = f"w{reader}x{number}",
            text: str = text,
            since: float = since,
        ) -> bool:
            now = time.perf_counter()
            killed, since_kill = load.killed, now - load.killed_at
            arguments = {"query": query, "top_k": 5}
            result = await call_tool(bus, "recall", arguments, caller=caller, timeout=ATTEMPT)
            if result.ok and text not in [item["content"] for item in result.data["items"]]:
                misses.append(
                    Miss(
                        age=now - since,
                        killed=killed,
                        since_kill=since_kill,
                        degraded=result.data["degraded"],
                        reason=result.data["reason"],
                    )
                )
            return result.ok

        await load.until_answered(ask)
        load.reads += 1
        load.missed += misses
        await asyncio.sleep(PAUSE)


async def all_serve(bus: Connection) -> bool:
    answers = list[BusMessage]()

    async def receive(answer: BusMessage) -> None:
        answers.append(answer)

    inbox = bus.client.new_inbox()
    subscription = await bus.subscribe(inbox, receive)
    await bus.publish(discovery("PING", "recall"), b"", reply=inbox)
    await asyncio.sleep(ANSWERED)
    await subscription.leave()
    return len(answers) == STACKS


async def kill_at_random(
    bus: Connection, cluster: Cluster, load: Load, kills: int, random: Random
) -> None:
    """Let one process after the other fail, of each kind in turn, and work again."""
    kinds = cycle(dict.fromkeys(process.kind for process in cluster.processes))
    for kind in islice(kinds, kills):
        async with asyncio.timeout(START_PATIENCE):
            while not await all_serve(bus):
                pass
        await asyncio.sleep(SETTLING)
        process = random.choice([one for one in cluster.processes if one.kind == kind])
        load.killed, load.killed_at = process.kind, time.perf_counter()
        await process.kill()
        await asyncio.sleep(random.uniform(*process.down))
        await process.start()
    await asyncio.sleep(SETTLING)


class Outcome(msgspec.Struct, frozen=True, kw_only=True):
    """What the database has, compared with what was acknowledged."""

    acknowledged: int
    lost: int
    doubled: int
    disordered: int


def compare(ledger: str, load: Load) -> Outcome:
    stored: defaultdict[str, list[str]] = defaultdict(list)
    with psycopg.connect(ledger, options="-c local2.tenant=*") as connection:
        for session, content in connection.execute(STORED):
            stored[session].append(content)
    lost = doubled = disordered = 0
    for session, texts in load.acknowledged.items():
        counted = Counter(stored[session])
        lost += sum(not counted[text] for text in texts)
        doubled += sum(count - 1 for count in counted.values())
        numbers = [int(NUMBER.findall(text)[0]) for text in stored[session]]
        disordered += sum(one > other for one, other in pairwise(numbers))
    total = sum(map(len, load.acknowledged.values()))
    return Outcome(acknowledged=total, lost=lost, doubled=doubled, disordered=disordered)


async def kill_cluster(folder: Path, kills: int) -> tuple[Load, Outcome]:
    load = Load()
    async with AsyncExitStack() as resources:
        cluster = await resources.enter_async_context(running_cluster(folder))

        async def connected() -> Connection:
            """Connect to one of the servers: each serves those stacks first that it has itself."""
            opening = connect(cluster.bus, name="cluster", patience=START_PATIENCE)
            return await resources.enter_async_context(opening)

        bus = await connected()
        async with asyncio.timeout(START_PATIENCE):
            await load.until_answered(lambda: serves(bus))
        load = Load(last_answer=time.perf_counter())
        async with asyncio.TaskGroup() as clients:
            for number in range(WRITERS // 2):
                clients.create_task(ingest_in_order(await connected(), load, number))
                clients.create_task(report_in_order(await connected(), load, number))
            for number in range(READERS):
                clients.create_task(read_on(await connected(), load, number % (WRITERS // 2)))
            await kill_at_random(bus, cluster, load, kills, Random(kills))  # noqa: S311 - not a secret
            load.is_over = True
        await all_stored(bus)
        return load, await asyncio.to_thread(compare, cluster.ledger, load)


async def serves(bus: Connection) -> bool:
    caller = Sender(user="user0", agent="cluster")
    return (await call_tool(bus, "recall", {"query": "gold"}, caller=caller, timeout=ATTEMPT)).ok


async def all_stored(bus: Connection) -> None:
    """Wait as long as turns are being stored: on a busy machine many wait after many kills."""
    left = sys.maxsize

    async def fewer() -> bool:
        nonlocal left
        now = await turns_stored(bus, "default", within=ATTEMPT)
        is_fewer, left = now < left, min(now, left)
        return is_fewer

    while left:
        async with asyncio.timeout(START_PATIENCE):
            await Load().until_answered(fewer)


async def measure(kills: int) -> list[Figure]:
    kills = kills or KILLS
    with tempfile.TemporaryDirectory() as folder:
        load, outcome = await kill_cluster(Path(folder), kills)
    figures = [
        Figure(key="acknowledged", about="texts acknowledged", blocks=[outcome.acknowledged]),
        Figure(key="lost", about=f"lost in {kills} kills", blocks=[outcome.lost], at_most=0),
        Figure(key="doubled", about="doubled", blocks=[outcome.doubled], at_most=0),
        Figure(key="disordered", about="out of order", blocks=[outcome.disordered], at_most=0),
        Figure(key="reads", about="recalls of what was acknowledged", blocks=[load.reads]),
        Figure(key="unseen", about="not found by them", blocks=[len(load.missed)], at_most=0),
        *(
            Figure(key=f"unseen_{number}", about=str(miss), blocks=[miss.age], unit="s old")
            for number, miss in enumerate(load.missed, 1)
        ),
        Figure(
            key="longest_turn",
            about="longest until a turn was acknowledged",
            blocks=[max(load.turns)],
            unit="s",
        ),
    ]
    for kind, when in WHEN.items():
        if waits := load.waits[kind]:
            figures += [
                Figure(
                    key=f"longest_{kind}",
                    about=f"longest request of a tool {when}",
                    blocks=[max(waits)],
                    unit="s",
                    at_most=LONGEST if kind == "stack" else None,
                ),
                Figure(
                    key=f"gap_{kind}",
                    about=f"longest time without any answer {when}",
                    blocks=[max(load.gaps[kind])],
                    unit="s",
                ),
            ]
    return figures


def main() -> None:
    run(__doc__, measure, "kills")
