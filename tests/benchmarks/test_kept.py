"""The benchmark of abuses detects records that a ledger lacks."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from abuse.kept import Kept
from local2.ledger.sqlite.database import Database
from local2.ledger.sqlite.sql import SCHEMA

INSERT = """
    INSERT INTO record (tenant, id, kind, owner, role, query_id, content, label, event_time)
    VALUES ('default', :id, :kind, :owner, :role, :query, :content, :label, '2026-05-02')
"""


@pytest.fixture
async def kept(tmp_path: Path) -> AsyncIterator[Kept]:
    """Open a ledger with turn `q1`, turn `q2` without its answer, a note and two chunks."""
    rows = [
        ("episode", "eve1", None, "q1", "Q: ?\nA: Long answer.", None),
        ("chat_message", "eve1", "user", "q1", "?", None),
        ("chat_message", "eve1", "assistant", "q1", "Long answer.", None),
        ("episode", "eve2", None, "q2", "Q: ?\nA: Long answer.", None),
        ("chat_message", "eve2", "user", "q2", "?", None),
        ("note", "ada", None, None, "A note.", None),
        ("document_chunk", "", None, None, "One.", "Guide"),
        ("document_chunk", "", None, None, "Two.", "Guide > Start"),
    ]
    names = ("kind", "owner", "role", "query", "content", "label")
    values = [{"id": f"{n}", **dict(zip(names, row, strict=True))} for n, row in enumerate(rows)]
    path = tmp_path / "ledger.sqlite3"
    async with Database.open(path, SCHEMA) as database:
        await database.write(lambda c: c.executemany(INSERT, values).rowcount)
        yield Kept(path)


async def test_a_turn_without_its_answer_or_with_a_shorter_one_is_missing(kept: Kept) -> None:
    assert await kept.turns("eve*") == {"q1"}
    assert await kept.turns("eve2") == set()
    assert await kept.turns("eve*", length=len("Long answer.")) == {"q1"}
    assert await kept.turns("eve*", length=len("Long answer.") + 1) == set()


async def test_records_are_counted_by_owner(kept: Kept) -> None:
    assert await kept.contents("ada", "note") == {"A note."}
    assert await kept.contents("ada", "chat_message") == set()
    assert await kept.records("eve1", "chat_message") == 2
    assert (await kept.chunks("Guide"), await kept.chunks("Manual")) == (2, 0)
