"""Many concurrent callers: no error, no lost write, and an event loop that never blocks."""

import asyncio
from collections import Counter, defaultdict
from collections.abc import Iterator
from pathlib import Path

import pytest
from blockbuster import BlockBuster, BlockingError, blockbuster_ctx

from calling import caller_named
from local2.bus.connection import connect
from local2.client.tools import call_tool
from local2.config_files import load_settings
from local2.ledger.engines.sqlite.database import Database
from local2.protocol.payloads import Json
from local2.stack.app import open_stack
from stacks import in_step, settings_in

CALLERS = 64
CALLS = 512
TOOLS = (
    "save_topic",
    "recall_topic",
    "save_memory",
    "search_memory",
    "ingest",
    "recall",
    "remember_fact",
    "memory_history",
)

ALLOWED = (
    # Before the stack serves anybody, or after it has served the last: files of the start, the
    # search for the server's executable, the lock, the folder's identity, the runtime file.
    ("local2/home.py", {"folder_lock", "runtime_file"}),
    ("local2/bus/server.py", {"__init__", "start"}),
    ("local2/bus/lease.py", {"for_folder"}),
    # Not the stack's: the fork that saves its worker's imports, and the lock with which coverage
    # measures a line for the first time in a thread.
    ("tests/workers.py", {"start"}),
    ("coverage/collector.py", {"lock_data"}),
)


@pytest.fixture
def blockbuster() -> Iterator[BlockBuster]:
    """Raise on every blocking call in the event loop."""
    with blockbuster_ctx(scanned_modules=["local2"]) as buster:
        for function in buster.functions.values():
            for file, names in ALLOWED:
                function.can_block_in(file, names)
        yield buster


class Load:
    """Callers that take their calls from one counter, and the outcomes of the calls."""

    def __init__(self, url: str) -> None:
        self._url = url
        self._calls = iter(range(CALLS))
        self.outcomes: Counter[tuple[str, str]] = Counter()
        self.topics: dict[tuple[str, str], str] = {}
        self.notes: set[tuple[str, str]] = set()
        self.messages: set[tuple[str, str]] = set()
        self.facts: set[tuple[str, str]] = set()
        self.recalled: Counter[str] = Counter()
        """Recalls by users who had told something, those of them that found nothing, and recalls
        that found what others had sent."""
        self._sent: defaultdict[str, set[str]] = defaultdict(set)
        self._writers: set[str] = set()
        """Users of whom a message or a fact has been acknowledged."""

    async def run(self) -> None:
        async with connect(self._url, name="load") as bus:
            self._bus = bus
            await asyncio.gather(*(self._caller(f"user{n}") for n in range(CALLERS)))

    async def _caller(self, user: str) -> None:
        caller = caller_named(user, agent="load", session_id=user)
        for number in self._calls:
            tool = TOOLS[number % len(TOOLS)]
            args = self._args(tool, user, number)
            self._sent[user] |= set(_texts(args))
            result = await call_tool(self._bus, tool, args, caller=caller, timeout=30)
            code = result.error.code if result.error else "ok"
            self.outcomes[tool, code] += 1
            if result.ok:
                self._record(tool, user, args)
            if tool == "recall" and result.ok:
                self._check(user, [item["content"] for item in result.data["items"]])

    def _args(self, tool: str, user: str, number: int) -> Json:
        topic = {"topic": f"user.t{number % 97}"}
        args: dict[str, Json] = {
            "save_topic": {**topic, "content": f"value {number}"},
            "recall_topic": topic,
            "save_memory": {"content": f"Note {number} of {user} about topic {number % 97}."},
            "search_memory": {"query": f"note about topic {number % 97}", "top_k": 3},
            "ingest": {"messages": [{"role": "user", "content": f"Message {number} of {user}."}]},
            "recall": {"query": f"message or fact about topic {number % 97}", "top_k": 3},
            "remember_fact": {"content": f"Fact {number} of {user}.", "scope": "user"},
            "memory_history": {"topic_or_id": topic["topic"]},
        }
        return args[tool]

    def _record(self, tool: str, user: str, args: Json) -> None:
        if tool == "save_topic":
            self.topics[user, args["topic"]] = args["content"]
        elif tool == "save_memory":
            self.notes.add((user, args["content"]))
        elif tool == "ingest":
            self.messages.add((user, args["messages"][0]["content"]))
        elif tool == "remember_fact":
            self.facts.add((user, args["content"]))
        if tool in {"ingest", "remember_fact"}:
            self._writers.add(user)

    def _check(self, user: str, found: list[str]) -> None:
        """Count a recall; the words of its question are in every message and fact."""
        written = user in self._writers
        self.recalled["after a write"] += written
        self.recalled["nothing"] += written and not found
        self.recalled["of others"] += not set(found) <= self._sent[user]


def _texts(args: Json) -> list[str]:
    """Return the texts that a call writes."""
    messages = args.get("messages", [args])
    return [message["content"] for message in messages if "content" in message]


@pytest.mark.timeout(180)
@pytest.mark.usefixtures("blockbuster", "worker_forked")
async def test_64_callers_make_512_calls_without_an_error_or_a_lost_write(
    tmp_path: Path,
) -> None:
    settings = settings_in(tmp_path)
    async with open_stack(settings, log_folder=tmp_path) as stack:
        await in_step(stack.bus)
        load = Load(stack.url)
        await load.run()

    assert load.outcomes == {(tool, "ok"): CALLS // len(TOOLS) for tool in TOOLS}
    assert (load.recalled["nothing"], load.recalled["of others"]) == (0, 0)
    assert load.recalled["after a write"] > 0
    async with Database.open(settings.memory.data_dir / "ledger.sqlite3") as left:
        topics = await _active(left, "owner, topic, content", "kind = 'fact' AND topic IS NOT NULL")
        facts = await _active(left, "owner, content", "kind = 'fact' AND topic IS NULL")
        notes = await _active(left, "owner, content", "kind = 'note'")
        messages = await _active(left, "owner, content", "kind = 'chat_message'")
    assert topics == {(*key, value) for key, value in load.topics.items()}
    assert (facts, notes, messages) == (load.facts, load.notes, load.messages)
    assert len(facts) == len(notes) == len(messages) == CALLS // len(TOOLS)


async def _active(database: Database, columns: str, which: str) -> set[tuple[str, ...]]:
    """Return the active records, as the next stack would find them."""
    statement = f"SELECT {columns} FROM record WHERE superseded_by IS NULL AND {which}"  # noqa: S608
    rows = await database.read(lambda c: c.execute(statement).fetchall())
    return {tuple(row) for row in rows}


async def test_a_blocking_call_is_detected(blockbuster: BlockBuster) -> None:
    """Proof that the test above can fail."""
    assert blockbuster.functions
    with pytest.raises(BlockingError, match="Blocking call"):
        load_settings(environment={})
