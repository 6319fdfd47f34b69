"""A long text is analysed before the write that others wait for, and ranked as usual."""

import threading
from collections.abc import Iterator

import pytest

from calling import caller_named
from local2.language.features import features
from local2.ledger import records
from local2.ledger.engines.sqlite import database as sqlite_database
from local2.ledger.engines.sqlite.database import Database
from local2.ledger.records import LONG_TEXT, NewRecord
from local2.memory.intake import intake
from local2.memory.intake.conversations import Conversation, Turn, read_records
from local2.memory.tenant import Memory
from local2.protocol.conversation import ConversationMessage, SkippedMessage
from local2.protocol.payloads import ToolCallRecord
from recalling import DAY, chat_message
from stored import select

RICHARD = caller_named("richard", session_id="s1")
TEXT = "I bought osmium in May, and gold. " * (LONG_TEXT // 30)


async def test_a_long_text_is_not_analysed_in_the_writer(
    memory: Memory, database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    read: list[tuple[str, int]] = []
    features_of = records.features_of

    def record_thread(record: NewRecord) -> object:
        read.append((threading.current_thread().name, len(record.content)))
        return features_of(record)

    for module in (records, sqlite_database):
        monkeypatch.setattr(module, "features_of", record_thread)
    service = memory.of(RICHARD)
    await service.intake.store_turn(
        Turn(query="What did I buy?", answer=TEXT, at=DAY, query_id="1")
    )
    await service.intake.store_conversation(
        [chat_message(TEXT, id="m1"), chat_message("Gold.", id="m2")], "s2"
    )

    by_the_writer = [length for thread, length in read if thread == "writer"]
    assert max(by_the_writer) < LONG_TEXT
    assert (
        sum(length >= LONG_TEXT for _, length in read) == 3
    )  # the episode, the answer, the message

    stored = await select(
        database, "SELECT stems FROM feature JOIN record ON row = record WHERE content = ?", TEXT
    )
    expected = features(TEXT, topic=None, label=None, at=DAY).stems
    assert stored[0] == (expected,)


@pytest.mark.parametrize(("calls", "is_main"), [(2, True), (1_000, False)])
async def test_a_message_with_many_calls_is_read_beside_the_event_loop(
    memory: Memory, monkeypatch: pytest.MonkeyPatch, *, calls: int, is_main: bool
) -> None:
    threads: list[threading.Thread] = []

    def record_thread(conversation: Conversation) -> Iterator[NewRecord | SkippedMessage]:
        threads.append(threading.current_thread())
        return read_records(conversation)

    monkeypatch.setattr(intake, "read_records", record_thread)
    made = [ToolCallRecord(id=f"c{n}", name="weigh", content=f"{n} g") for n in range(calls)]
    message = ConversationMessage(role="assistant", tool_calls=made)

    ingested = await memory.of(RICHARD).intake.store_conversation([message])

    assert ingested.added == calls
    assert [thread is threading.main_thread() for thread in threads] == [is_main]
