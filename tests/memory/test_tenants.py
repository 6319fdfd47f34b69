"""Two tenants share a database and nothing else: none reads or changes another's records."""

import ast
from pathlib import Path
from typing import Any

import pytest

import local2
from calling import RICHARD
from indexed import indexed
from local2.bus.connection import Connection
from local2.bus.vector_client import VectorClient, VectorRequests
from local2.ledger.engines.sqlite.database import Database
from local2.ledger.ledger import Ledger
from local2.ledger.records import Fact, NewRecord
from local2.memory.backlog import Backlog
from local2.memory.indexing import Indexer
from local2.memory.intake.waiting_turns import WaitingTurns
from local2.memory.recall.recaller import (
    Recaller,
    RecallModels,
    RecallRequest,
    RecallResult,
    Retrieval,
)
from local2.memory.scopes import EQUAL_WEIGHTS
from local2.memory.tenant import Memory
from local2.protocol.envelope import Caller, new_id
from local2.settings import MemorySettings
from recalling import DAY, chat_message, contents

NAMESAKE = Caller(tenant="other", user="richard", agent="shell", session_id="s1")
SOURCE = Path(local2.__file__).parent
QUESTION = "project.deadline user.metal osmium iridium Friday densest metal"


class Trusting(Indexer):
    """An indexer that trusts its index, and has to query the ledger for waiting records."""

    @property
    def problem(self) -> None:
        return None


class Other:
    """The second tenant on the database, with a user of Richard's name."""

    def __init__(self, memory: Memory, database: Database, bus: Connection) -> None:
        self.ledger = Ledger(database, "other")
        self.queue = self.ledger.index
        # As an index would be that returns the default tenant's hits to every tenant.
        index = VectorClient(VectorRequests(bus, search_timeout=5), "default")
        self._recaller = Recaller(
            Retrieval(
                self.ledger,
                Trusting(self.queue, index, Backlog(self.ledger.backlog), patience=0),
                index,
            ),
            weights=EQUAL_WEIGHTS,
            feedback_weight=MemorySettings().feedback_weight,
            min_score=None,
            models=RecallModels(),
            clock=memory.clock,
            turns=WaitingTurns(),
        )

    async def recall(self, query: str, **ask: Any) -> RecallResult:
        request = RecallRequest(**{"query": query, "top_k": 20, "repetitions": True, **ask})
        return await self._recaller.recall(NAMESAKE, request)


@pytest.fixture
async def other(searchable: Memory, database: Database, bus: Connection) -> Other:
    """The second tenant, with the default tenant's records of every kind in the index."""
    richard = searchable.of(RICHARD)
    await richard.intake.store_conversation(
        [chat_message("Osmium is the densest metal."), chat_message("And iridium?")]
    )
    await richard.intake.store_episode("Osmium is the densest metal.")
    await richard.write_topic("project.deadline", "Friday")
    await richard.write_topic("user.metal", "osmium")
    for scope in ("user", "agent", "tenant"):
        await richard.facts.store(Fact(content="Osmium is the densest metal.", scope=scope))
    await indexed(searchable)
    return Other(searchable, database, bus)


def message(content: str, **fields: Any) -> NewRecord:
    """Return a message in the namesake's session."""
    columns = {
        "id": new_id(),
        "kind": "chat_message",
        "owner": "richard",
        "session_id": "s1",
        "event_time": DAY,
    }
    return NewRecord(**{**columns, "content": content, **fields})


@pytest.mark.parametrize("scope", ["session", "history", "user", "agent", "tenant", "any"])
async def test_no_scope_reaches_another_tenant(
    searchable: Memory, other: Other, scope: str
) -> None:
    recalled = await other.recall(QUESTION, scope=scope)

    assert (contents(recalled), recalled.degraded) == ([], False)
    assert (
        await searchable.of(RICHARD).recall(RecallRequest(query=QUESTION, top_k=20))
    ).items != []


async def test_sessions_of_the_same_name_are_separate(other: Other) -> None:
    """Its neighbours and the records of its related ids are the tenant's own."""
    await other.ledger.records.store([message("My osmium.")])

    (item,) = (await other.recall(QUESTION)).items

    assert item.record.content == "My osmium."
    assert item.shares.around == 0


async def test_interleaved_messages_of_another_tenant_are_not_neighbours(
    searchable: Memory, other: Other
) -> None:
    await other.ledger.records.store([message("Which one is liquid?")])
    await searchable.of(RICHARD).intake.store_conversation([chat_message("Not gold.")])
    await other.ledger.records.store([message("Mercury.")])

    found = {item.record.content: item for item in (await other.recall("liquid")).items}

    assert found["Mercury."].shares.around > 0


async def test_relations_of_another_tenant_lead_nowhere(searchable: Memory, other: Other) -> None:
    ids = ("one", "two")
    for tenant in (searchable, other):
        for id_, content in zip(ids, ("My tungsten.", "The lab is cold."), strict=True):
            await tenant.ledger.records.store([message(content, id=id_, session_id=id_)])
    await searchable.ledger.facts.relate("one", "supports", "two")

    assert contents(await other.recall("tungsten")) == ["My tungsten."]
    await other.ledger.facts.relate("one", "supports", "two")
    assert contents(await other.recall("tungsten")) == ["My tungsten.", "The lab is cold."]


async def test_an_id_in_the_index_stands_only_for_the_tenants_own_record(
    searchable: Memory, other: Other
) -> None:
    """The index returns a near id; the ledger determines its owner and its text."""
    found = (
        await searchable.of(RICHARD).recall(RecallRequest(query="densest metal", top_k=20))
    ).items
    for item in found:
        await other.ledger.records.store([message("Has Bob slept?", id=item.record.id)])

    assert set(contents(await other.recall("densest metal"))) <= {"Has Bob slept?"}


def test_code_that_omits_the_tenant_reaches_no_memory() -> None:
    """No code behind the bus has a default tenant; the default name is in one place."""
    literals, defaults = set(), []
    behind = [SOURCE / "protocol" / "envelope.py"]
    for room in ("memory", "ledger", "tools", "vectors"):
        behind += (SOURCE / room).rglob("*.py")
    for path in behind:
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.arguments):
                args = [*node.posonlyargs, *node.args]
                defaulted = [*args[len(args) - len(node.defaults) :]] if node.defaults else []
                defaulted += [
                    a for a, d in zip(node.kwonlyargs, node.kw_defaults, strict=True) if d
                ]
                defaults += [path.name for arg in defaulted if arg.arg == "tenant"]
            elif isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name):
                defaults += [path.name] if node.target.id == "tenant" and node.value else []
            elif isinstance(node, ast.Assign) and isinstance(node.value, ast.Constant):
                literals |= {path.name} if node.value.value == "default" else set()

    assert defaults == []
    assert literals == {"envelope.py"}
