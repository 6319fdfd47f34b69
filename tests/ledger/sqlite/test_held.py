"""Data cached from a ledger's file is bounded for all its tenants together."""

import pytest

from ledgers import OWNER, fact, find, index, record, searching
from local2.ledger.engines.sqlite.database import Database
from local2.ledger.ledger import Ledger
from local2.ledger.operations.working_sets import Budget, budgets_of

TENANTS = [f"tenant{n}" for n in range(10)]


def test_beyond_the_budget_the_least_recently_used_entry_is_dropped() -> None:
    budget, dropped = Budget(10), list[str]()
    for name, size in (("a", 4), ("b", 4), ("a", 4), ("c", 4)):
        budget.use(name, size, lambda name=name: dropped.append(name))  # type: ignore[misc]

    assert dropped == ["b"]
    budget.forget("a")
    budget.use("d", 6, lambda: dropped.append("d"))
    assert dropped == ["b"]
    budget.use("large", 99, lambda: dropped.append("large"))
    assert dropped == ["b", "c", "d"]


async def test_memories_and_facts_of_many_tenants_share_one_budget(
    database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    held = budgets_of(database)
    monkeypatch.setattr(held.records, "max_size", 30)
    monkeypatch.setattr(held.topics, "max_size", 3)
    ledgers = [Ledger(database, tenant) for tenant in TENANTS]
    for ledger in ledgers:
        await ledger.records.store([record(f"Osmium {n}.", id=f"r{n}") for n in range(9)])
        await ledger.facts.store(fact("Elixir.", topic="user.language"))
        await index(ledger, {"Elixir.": 0.0})
        assert await ledger.facts.topic("user", OWNER, "user.language") is not None
        assert len((await find(ledger, searching("osmium"))).contents) == 10

    sets = [ledger.searches._working_sets._sets for ledger in ledgers]
    assert sum(len(one.columns) for each in sets for one in each.values()) <= 30
    assert sum(len(ledger.facts._topics._records) for ledger in ledgers) == 3
    assert len((await find(ledgers[0], searching("osmium"))).contents) == 10, "read again"
