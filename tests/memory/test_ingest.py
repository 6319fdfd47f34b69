"""Ingested conversations are stored word for word, once, and recalled immediately."""

import asyncio
import json
from datetime import UTC, datetime
from typing import Any

import msgspec
import pytest

from calling import UNNAMED, caller_named
from local2.errors import StorageError
from local2.ledger.engines.sqlite.database import Database
from local2.ledger.operations import conversations
from local2.ledger.operations import records as storing
from local2.ledger.records import Written
from local2.memory.intake.conversations import Conversation, records_of
from local2.memory.service import MemoryService
from local2.memory.tenant import Memory
from local2.protocol import subjects
from local2.protocol.conversation import ConversationMessage
from local2.protocol.memory_tools import TOOLS
from local2.protocol.payloads import MemoryChange, ToolCallRecord
from recalling import DAY, chat_message, recall
from stored import records

TALK = [
    chat_message("Which metal is the densest?", timestamp=DAY),
    chat_message("Osmium:\n\n  22.59 g/cm³  ", "assistant", timestamp=DAY),
    chat_message("yes", timestamp=DAY),
    chat_message("Shall I go on?", "assistant", timestamp=DAY),
    chat_message("yes", timestamp=DAY),
]


async def test_messages_are_stored_word_for_word_in_their_order(
    richard: MemoryService, database: Database
) -> None:
    ingested = await richard.intake.store_conversation(TALK)

    stored = await records(database)
    assert [row["content"] for row in stored] == [message.content for message in TALK]
    assert [row["role"] for row in stored] == [message.role for message in TALK]
    assert {row["kind"] for row in stored} == {"chat_message"}
    assert {row["session_id"] for row in stored} == {ingested.session_id}
    assert {(row["owner"], row["agent"]) for row in stored} == {("richard", "shell")}
    assert [row["id"] for row in stored] == ingested.ids
    assert ingested.added == 5


async def test_messages_are_recalled_before_anything_is_indexed(
    memory: Memory, richard: MemoryService
) -> None:
    await richard.intake.store_conversation(TALK)

    assert (await memory.ledger.counts()).waiting == 5
    assert (await recall(richard, "densest metal"))[0] == TALK[0].content


async def test_resending_a_conversation_changes_nothing(
    memory: Memory, richard: MemoryService, announced: list[tuple[str, MemoryChange]]
) -> None:
    first = await richard.intake.store_conversation(TALK)
    before = list(announced)
    again = await richard.intake.store_conversation(TALK)

    assert (first.added, again.added) == (5, 0)
    assert (again.session_id, again.ids) == (first.session_id, first.ids)
    assert (await memory.ledger.counts()).records == 5
    assert announced == before
    assert len(before) == 5


async def test_a_longer_version_adds_only_its_new_messages(
    memory: Memory, richard: MemoryService
) -> None:
    first = await richard.intake.store_conversation(TALK)
    longer = await richard.intake.store_conversation(
        [*TALK, chat_message("yes", timestamp=DAY), chat_message("Thanks.")]
    )

    assert longer.added == 2
    assert (longer.session_id, longer.ids[:5]) == (first.session_id, first.ids)
    assert (await memory.ledger.counts()).records == 7


@pytest.mark.parametrize(
    "other",
    [
        pytest.param([chat_message("Another metal?", timestamp=DAY), *TALK[1:]], id="words"),
        pytest.param(
            [chat_message("Which metal is the densest?", timestamp=DAY.replace(day=3)), *TALK[1:]],
            id="time",
        ),
        pytest.param(
            [chat_message("Which metal is the densest?", timestamp=DAY, name="Ann"), *TALK[1:]],
            id="name",
        ),
    ],
)
async def test_another_conversation_is_another_session(
    memory: Memory, other: list[ConversationMessage]
) -> None:
    intake = memory.of(caller_named("richard")).intake
    first = await intake.store_conversation(TALK)
    second = await intake.store_conversation(other)

    assert second.session_id != first.session_id
    assert second.added == 5


async def test_the_session_is_the_given_one_else_the_callers_else_derived(
    memory: Memory,
) -> None:
    inside = memory.of(caller_named("richard", session_id="envelope"))
    outside = memory.of(caller_named("richard"))

    assert (await inside.intake.store_conversation(TALK, "given")).session_id == "given"
    assert (await inside.intake.store_conversation(TALK)).session_id == "envelope"
    derived = (await outside.intake.store_conversation(TALK)).session_id
    assert derived not in {"given", "envelope"}
    assert (
        await memory.of(caller_named("eve")).intake.store_conversation(TALK)
    ).session_id == derived


async def test_pieces_of_a_conversation_fit_together_if_messages_have_ids(
    memory: Memory, richard: MemoryService
) -> None:
    numbered = [
        msgspec.structs.replace(message, id=f"m{number}") for number, message in enumerate(TALK)
    ]
    await richard.intake.store_conversation(numbered[:3], "s1")
    await richard.intake.store_conversation(numbered[2:4], "s1")
    last = await richard.intake.store_conversation(numbered[4:], "s1")
    whole = await richard.intake.store_conversation(numbered, "s1")

    assert (last.added, whole.added) == (1, 0)
    assert (await memory.ledger.counts()).records == len(TALK)


async def test_two_users_with_the_same_conversation_have_one_each(memory: Memory) -> None:
    services = [memory.of(caller_named(user)) for user in ("richard", "eve")]
    ingested = [await service.intake.store_conversation(TALK) for service in services]

    assert [one.added for one in ingested] == [5, 5]
    assert set(ingested[0].ids).isdisjoint(ingested[1].ids)
    for service in services:
        assert (await recall(service, "densest metal")).count(str(TALK[0].content)) == 1


async def test_a_message_is_stored_with_speaker_reference_and_time(
    richard: MemoryService, database: Database
) -> None:
    await richard.intake.store_conversation(
        [chat_message("Hello.", name="Ann", id="D1:3", timestamp=DAY), chat_message("And?")]
    )

    row, without_id = await records(database)
    assert (row["label"], row["source_ref"], without_id["source_ref"]) == ("Ann", "D1:3", None)
    assert row["event_time"] == "2026-05-02T14:23:01.000+00:00"


@pytest.mark.parametrize(
    ("timestamp", "stored"),
    [
        ("2026-05-02T14:23:01", "2026-05-02T14:23:01.000+00:00"),
        ("2026-05-02T14:23:01Z", "2026-05-02T14:23:01.000+00:00"),
        ("2026-05-02T23:30:00-02:00", "2026-05-03T01:30:00.000+00:00"),
        (None, "2026-11-20T12:00:00.000+00:00"),
    ],
)
async def test_times_are_stored_in_utc_and_default_to_now(
    memory: Memory, database: Database, timestamp: str | None, stored: str
) -> None:
    memory.clock = lambda: datetime(2026, 11, 20, 12, 0, tzinfo=UTC)
    message = msgspec.convert(
        {"role": "user", "content": "Hi.", "timestamp": timestamp}, ConversationMessage
    )
    await memory.of(UNNAMED).intake.store_conversation([message])

    assert [row["event_time"] for row in await records(database)] == [stored]


def call(name: str, content: str = "", **fields: Any) -> ToolCallRecord:
    return ToolCallRecord(name=name, content=content, **fields)


async def test_tool_results_are_stored_with_the_id_of_their_call(
    richard: MemoryService, database: Database
) -> None:
    """The result is in the call or in a separate message, which names the tool or only the call."""
    await richard.intake.store_conversation(
        [
            chat_message(None, "assistant", tool_calls=[call("weigh", "22.59 g", id="c1")]),
            chat_message(
                "  ", "assistant", tool_calls=[call("count", id="c2"), call("wait", id="c3")]
            ),
            chat_message("17 pieces", "tool", tool_call_id="c2"),
            chat_message("It is noon.", "tool", tool_call_id="c9", name="clock"),
            chat_message("Whoever said so.", "tool"),
        ]
    )

    asking, *stored = sorted(await records(database), key=lambda row: row["kind"] != "transcript")
    assert [(row["label"], row["content"], row["source_ref"]) for row in stored] == [
        ("weigh", "22.59 g", "c1"),
        ("count", "17 pieces", "c2"),
        ("clock", "It is noon.", "c9"),
        ("tool", "Whoever said so.", None),
    ]
    assert {(row["kind"], row["role"]) for row in stored} == {("tool_output", "tool")}
    calls = [one["name"] for one in json.loads(asking["metadata"])["tool_calls"]]
    assert (asking["content"], calls) == ("  ", ["count", "wait"])


async def test_an_identical_result_of_two_calls_is_stored_twice(
    richard: MemoryService, database: Database
) -> None:
    await richard.intake.store_conversation(
        [
            chat_message(None, "assistant", tool_calls=[call("weigh", "1 g", id="c1")]),
            chat_message(None, "assistant", tool_calls=[call("weigh", "1 g", id="c2")]),
            chat_message("1 g", "tool", name="weigh"),
            chat_message("1 g", "tool", name="weigh"),
        ]
    )

    assert len(await records(database)) == 4


@pytest.mark.parametrize("tool", [tool.name for tool in TOOLS])
async def test_answers_of_the_memory_itself_are_skipped_with_the_reason(
    memory: Memory, richard: MemoryService, database: Database, tool: str
) -> None:
    memory.answer_log.add(richard.caller, tool, "Echo.", ())
    ingested = await richard.intake.store_conversation(
        [
            chat_message(
                None, "assistant", tool_calls=[call(tool, "Echo.", id="c1"), call(tool, id="c2")]
            ),
            chat_message("Echo.", "tool", tool_call_id="c2"),
            chat_message("Echo.", "tool", name=tool),
            chat_message("An answer of somebody else's.", "tool", name=tool),
        ]
    )

    assert [skipped.index for skipped in ingested.skipped] == [0, 1, 2]
    assert {skipped.reason for skipped in ingested.skipped} == {"answered by this memory itself"}
    stored = [(row["kind"], row["content"]) for row in await records(database)]
    assert stored == [("transcript", ""), ("tool_output", "An answer of somebody else's.")]


async def test_possible_older_answers_of_the_memory_are_stored_but_not_searched(
    memory: Memory, richard: MemoryService, database: Database
) -> None:
    before = memory.answer_log.since.replace(year=2020)
    results = [
        chat_message("Echo.", "tool", name=name, timestamp=before) for name in ("recall", "weigh")
    ]
    ingested = await richard.intake.store_conversation(results)

    assert (ingested.added, ingested.skipped) == (2, [])
    stored = [(row["kind"], row["label"]) for row in await records(database)]
    assert stored == [("transcript", "recall"), ("tool_output", "weigh")]


async def test_prompts_and_blank_messages_are_stored_but_not_searched(
    memory: Memory, richard: MemoryService, database: Database
) -> None:
    ingested = await richard.intake.store_conversation(
        [
            chat_message("You are a helpful assistant.", "system"),
            chat_message(""),
            chat_message(" \n\t", "assistant"),
            chat_message(None, "assistant"),
            chat_message("", "tool"),
            chat_message("\u2003", "tool", name="weigh"),
        ]
    )

    stored = await records(database)
    assert (len(ingested.ids), ingested.added) == (6, 6)
    assert {row["kind"] for row in stored} == {"transcript"}
    assert [row["content"] for row in stored] == [
        "You are a helpful assistant.", "", " \n\t", "", "", "\u2003"
    ]  # fmt: skip
    assert await recall(richard, "a helpful assistant") == []
    assert (await memory.ledger.counts()).waiting == 0


async def test_a_changed_system_prompt_does_not_change_a_sessions_ids(
    richard: MemoryService,
) -> None:
    for prompt in ("Be kind.", "Be brief."):
        await richard.intake.store_conversation([chat_message(prompt, "system"), *TALK], "s1")
    last = await richard.intake.store_conversation(TALK, "s1")

    assert last.added == 0


async def test_message_ids_are_stable_across_releases(richard: MemoryService) -> None:
    """Users who upgrade resend old conversations, whose messages must not become new ones."""
    ingested = await richard.intake.store_conversation(TALK[:2], "s1")

    assert ingested.ids == [
        "88518dcb5536d001ccf66e47b2fd1bc7",
        "bae00fe74589b0502d9e604aea2f059b",
    ]


async def test_other_writes_do_not_wait_for_the_whole_of_a_long_conversation(
    memory: Memory, database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(storing, "RECORDS_PER_TRANSACTION", 10)
    talk = Conversation(
        messages=[chat_message(f"Page {number}") for number in range(20)],
        owner="ann",
        agent="shell",
        session_id="s1",
        now=DAY,
    )
    pages = list(records_of(talk))

    writing = asyncio.create_task(memory.ledger.records.store(pages))
    await asyncio.sleep(0)
    await memory.of(caller_named("richard")).write_topic("user.name", "Richard")
    await writing

    topics = [row["topic"] for row in await records(database)]
    assert (len(topics), topics.index("user.name")) == (21, 10)


async def test_what_was_stored_of_a_conversation_before_a_failure_is_announced_and_named(
    memory: Memory,
    database: Database,
    announced: list[tuple[str, MemoryChange]],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(conversations, "RECORDS_PER_TRANSACTION", 10)
    write, parts = memory.ledger.conversations._write, 0

    async def write_once(*args: Any) -> list[Written]:
        nonlocal parts
        parts += 1
        if parts > 1:
            raise StorageError("The disk is full.")
        return await write(*args)

    monkeypatch.setattr(memory.ledger.conversations, "_write", write_once)
    talk = [chat_message(f"Page {number}") for number in range(20)]
    with pytest.raises(StorageError) as failed:
        await memory.of(caller_named("richard")).intake.store_conversation(talk)

    stored = (
        "The first 10 of 20 records of the conversation are stored; sent again, it is completed."
    )
    assert str(failed.value) == f"The disk is full. {stored}"
    saved = [change.id for subject, change in announced if subject == subjects.MEMORY_SAVED]
    assert len(saved) == 10
    assert saved == [record["id"] for record in await records(database)]
