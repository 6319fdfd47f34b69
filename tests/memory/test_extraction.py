"""What users say becomes facts after it is stored: once, with its messages, beside others."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import suppress
from datetime import timedelta
from typing import Any

import msgspec
import pytest

from calling import RICHARD
from local.bus.connection import Connection
from local.bus.vector_client import VectorClient
from local.errors import ModelError
from local.ledger.door import Ledger
from local.ledger.records import EXTRACTED_FROM, NewRecord, Record, sources_of
from local.ledger.sqlite.database import Database, SqlConnection
from local.ledger.upkeep import ExtractedFact
from local.memory.extraction.items import USER, Item, Passage
from local.memory.intake.conversations import Turn
from local.memory.intake.intake import Question
from local.memory.recall.recaller import RecallRequest
from local.memory.service import MemoryService
from local.memory.tenant import Memory, Models
from local.memory.upkeep import extraction
from local.protocol.envelope import utc_now
from local.protocol.memories import Kind
from local.protocol.payloads import MemoryChange
from local.settings import MemorySettings
from recalling import DAY, chat_message, recall, remember
from waiting import eventually

HOME = {"topic": "user.home"}
DATABASE = {"topic": "project.database"}
FACTS: tuple[Kind, ...] = ("fact",)
ADA = msgspec.structs.replace(RICHARD, user="ada", session_id="s9")


class Scripted:
    """Finds the sentences it knows, each as it is said."""

    def __init__(self) -> None:
        self.known: dict[str, dict[str, Any]] = {}
        self.passages: list[Passage] = []
        self.away = False

    async def extract(self, passage: Passage) -> list[Item]:
        if self.away:
            raise ModelError("Nobody answers.")
        self.passages.append(passage)
        return [
            Item(
                **{"memory_type": "fact", "summary": text, **about}, content=text, sources=(one.id,)
            )
            for one in passage.messages
            for text, about in self.known.items()
            if one.role == USER and text in one.content
        ]

    def messages(self) -> list[str]:
        """What it was given to read of users."""
        every = [one for passage in self.passages for one in passage.messages]
        return [one.content for one in every if one.role == USER]


@pytest.fixture
def extractor() -> Scripted:
    return Scripted()


@pytest.fixture
async def memory(
    bus: Connection,
    database: Database,
    announced: list[tuple[str, MemoryChange]],
    extractor: Scripted,
) -> AsyncIterator[Memory]:
    """A memory that reads what users say."""

    def announce(subject: str, change: MemoryChange) -> None:
        announced.append((subject, change))

    opened = Memory(
        Ledger(database, "default"),
        VectorClient(bus, search_timeout=5.0),
        MemorySettings(),
        announce=announce,
        models=Models(extractor=extractor),
    )
    working = asyncio.create_task(opened.backlog.run())
    yield opened
    working.cancel()
    with suppress(asyncio.CancelledError):
        await working


async def all_read(memory: Memory) -> None:
    async def nothing_waits() -> bool:
        return not any(count.kind == "extract" for count in await memory.ledger.backlog.counts())

    await eventually(nothing_waits)


async def tell(memory: Memory, service: MemoryService, *contents: str, **fields: Any) -> list[str]:
    """Store messages of a user in a session, and wait until they are read; their ids."""
    session = fields.pop("session", "s1")
    report = await service.intake.store_conversation(
        [chat_message(content, **fields) for content in contents], session
    )
    await all_read(memory)
    return report.ids


async def facts(service: MemoryService, query: str, **ask: Any) -> list[Record]:
    found = await service.recall(RecallRequest(query=query, top_k=20, **{"kinds": FACTS, **ask}))
    return [item.record for item in found.items]


def fact_of(content: str, message: str) -> ExtractedFact:
    """As the job makes it of a message."""
    record = NewRecord(
        id=f"of {message}",
        kind="fact",
        content=content,
        event_time=DAY,
        scope="user",
        owner="richard",
        source_class="stated",
        metadata={EXTRACTED_FROM: [message]},
    )
    return ExtractedFact(record=record, sources=[message])


async def relations(database: Database, record_id: str) -> set[tuple[str, str]]:
    """Type and target of what a record is related to."""

    def read(connection: SqlConnection) -> set[tuple[str, str]]:
        found = connection.execute(
            "SELECT type, target FROM relation WHERE source = ?", (record_id,)
        )
        return {(row["type"], row["target"]) for row in found}

    return await database.read(read)


async def test_a_fact_is_found_with_the_message_that_it_was_read_in(
    memory: Memory,
    richard: MemoryService,
    extractor: Scripted,
    announced: list[tuple[str, MemoryChange]],
) -> None:
    extractor.known["I live in Bath."] = HOME

    (message,) = await tell(memory, richard, "Hello! I live in Bath.")

    (fact,) = await facts(richard, "Bath")
    assert (fact.content, fact.topic, fact.source_class) == (
        "I live in Bath.",
        "user.home",
        "stated",
    )
    assert (fact.scope, fact.owner, fact.stated_by) == ("user", "richard", "richard")
    assert sources_of(fact) == [message]
    assert await richard.recall_topic("user.home") == "I live in Bath."
    saved = [change for _, change in announced if change.id == fact.id]
    assert [(one.memory_type, one.sources) for one in saved] == [("fact", [message])]


async def test_the_message_stands_where_both_are_searched(
    memory: Memory, richard: MemoryService, extractor: Scripted
) -> None:
    extractor.known["I live in Bath."] = HOME

    await tell(memory, richard, "Hello! I live in Bath.")

    assert await recall(richard, "Where do I live?") == ["Hello! I live in Bath."]


async def test_the_same_conversation_is_read_once_and_a_longer_one_from_where_it_goes_on(
    memory: Memory, richard: MemoryService, extractor: Scripted
) -> None:
    extractor.known = {"I live in Bath.": {}, "I own a boat.": {}}

    await tell(memory, richard, "I live in Bath.")
    await tell(memory, richard, "I live in Bath.")
    await tell(memory, richard, "I live in Bath.", "I own a boat.")

    assert extractor.messages() == ["I live in Bath.", "I own a boat."]
    assert [one.content for one in extractor.passages[1].context] == ["I live in Bath."]
    assert len(await facts(richard, "Bath boat")) == 2


async def test_what_is_said_later_under_the_same_key_replaces_what_stood(
    memory: Memory, richard: MemoryService, extractor: Scripted
) -> None:
    extractor.known = {"I live in Bath.": HOME, "I live in Rome.": HOME}

    await tell(memory, richard, "I live in Bath.", "I live in Rome.")

    (fact,) = await facts(richard, "Where do I live?")
    versions = await richard.facts.history("user.home")
    assert fact.content == "I live in Rome."
    assert [(one.content, one.retired_why) for one in versions] == [
        ("I live in Rome.", None),
        ("I live in Bath.", "superseded"),
    ]


async def test_what_was_said_earlier_and_comes_later_replaces_nothing(
    memory: Memory, richard: MemoryService, extractor: Scripted
) -> None:
    extractor.known = {"I live in Bath.": HOME, "I live in Rome.": HOME}

    await tell(memory, richard, "I live in Rome.", timestamp=DAY)
    await tell(memory, richard, "I live in Bath.", timestamp=DAY - timedelta(9), session="s2")

    assert await richard.recall_topic("user.home") == "I live in Rome."
    assert [one.content for one in await facts(richard, "Where do I live?")] == ["I live in Rome."]
    assert len(await richard.facts.history("user.home")) == 2


async def test_what_is_known_is_not_stored_again_and_has_one_more_source(
    memory: Memory, richard: MemoryService, extractor: Scripted, database: Database
) -> None:
    extractor.known["I live in Bath."] = {}

    first = await tell(memory, richard, "I live in Bath.")
    second = await tell(memory, richard, "As you know, I live in Bath.", session="s2")

    (fact,) = await facts(richard, "Bath")
    assert await relations(database, fact.id) == {
        ("derived_from", id_) for id_ in (*first, *second)
    }


async def test_a_value_that_an_agent_stored_stays_where_the_user_says_the_same(
    memory: Memory, richard: MemoryService, extractor: Scripted
) -> None:
    extractor.known["My language is Elixir."] = {"topic": "user.language"}
    await richard.write_topic("user.language", "Elixir")

    await tell(memory, richard, "My language is Elixir.")

    assert await richard.recall_topic("user.language") == "Elixir"


async def test_what_another_user_says_replaces_nothing_and_contradicts(
    memory: Memory, richard: MemoryService, extractor: Scripted, database: Database
) -> None:
    postgres, mongo = "We run PostgreSQL 16.", "We run MongoDB 7."
    extractor.known = {postgres: DATABASE, mongo: DATABASE}

    await tell(memory, richard, postgres)
    await tell(memory, memory.of(ADA), mongo, session="s9")

    assert await richard.recall_topic("project.database") == postgres
    (other,) = [
        one for one in await facts(richard, "MongoDB", scope="tenant") if one.content == mongo
    ]
    stands = await richard.facts.topic("project.database")
    assert stands is not None
    assert ("contradicts", stands.id) in await relations(database, other.id)


async def test_what_holds_for_everybody_is_the_agents_as_well(
    memory: Memory, richard: MemoryService, extractor: Scripted
) -> None:
    extractor.known["We run PostgreSQL 16."] = DATABASE

    await tell(memory, richard, "We run PostgreSQL 16.")

    found = await facts(richard, "PostgreSQL", scope="tenant")
    of_agent = await facts(richard, "PostgreSQL", scope="agent")
    assert [(one.scope, one.owner) for one in (*found, *of_agent)] == [
        ("tenant", ""),
        ("agent", "shell"),
    ]
    assert await facts(richard, "PostgreSQL", scope="user") == []


async def test_a_task_belongs_to_its_session_and_counts_less_outside_of_it(
    memory: Memory, richard: MemoryService, extractor: Scripted
) -> None:
    extractor.known["I have to fix the osmium parser."] = {"memory_type": "task"}
    await tell(memory, richard, "I have to fix the osmium parser.")

    ask = RecallRequest(query="osmium parser", top_k=5, kinds=FACTS)
    here = (await richard.recall(ask)).items[0]
    elsewhere = memory.of(msgspec.structs.replace(RICHARD, session_id="s2"))
    there = (await elsewhere.recall(ask)).items[0]

    assert (here.record.scope, here.record.session_id) == ("session", "s1")
    assert there.weight < here.weight
    waiting = {count.kind: count.waiting for count in await memory.ledger.backlog.counts()}
    assert waiting == {"index": 1}, "the message, not the task"


async def test_an_edited_message_takes_its_facts_with_it(
    memory: Memory, richard: MemoryService, extractor: Scripted
) -> None:
    extractor.known = {"I live in Bath.": {}, "I live in Rome.": {}, "I own a boat.": {}}
    await tell(memory, richard, "I live in Bath. I own a boat.", id="m1")

    await tell(memory, richard, "I live in Rome. I own a boat.", id="m1")

    found = [one.content for one in await facts(richard, "Bath Rome boat")]
    assert sorted(found) == ["I live in Rome.", "I own a boat."]


async def test_only_what_users_say_is_read(
    memory: Memory, richard: MemoryService, extractor: Scripted
) -> None:
    turn = Turn(query="I live in Bath.", answer="You live in Rome.", at=DAY, session_id="s1")

    await richard.intake.store_turn(turn)
    await richard.intake.store_conversation(
        [
            chat_message("I answer.", "assistant"),
            chat_message("42", "tool", name="sum"),
            chat_message("Be kind.", "system"),
        ]
    )
    await all_read(memory)

    assert extractor.messages() == ["I live in Bath."]


async def test_a_question_that_was_heard_is_read_once_more_with_its_answer(
    memory: Memory, richard: MemoryService, extractor: Scripted
) -> None:
    question = Question(text="I live in Bath.", at=DAY, session_id="s1", query_id="q", named=True)
    await richard.intake.store_question(question)
    await all_read(memory)

    turn = Turn(query=question.text, answer="Noted.", at=DAY, session_id="s1", query_id="q")
    await richard.intake.store_turn(turn)
    await all_read(memory)

    assert [len(passage.messages) for passage in extractor.passages] == [1, 2]


async def test_while_the_model_is_away_messages_are_found_and_wait(
    memory: Memory, richard: MemoryService, extractor: Scripted
) -> None:
    extractor.known["I live in Bath."] = HOME
    extractor.away = True

    report = await richard.intake.store_conversation([chat_message("I live in Bath.")], "s1")
    assert report.added == 1
    assert await recall(richard, "Bath") == ["I live in Bath."]
    extractor.away = False
    await all_read(memory)

    assert await richard.recall_topic("user.home") == "I live in Bath."


@pytest.mark.parametrize(
    ("known", "new"),
    [
        pytest.param("I like tea.", "I don't like tea.", id="a denial"),
        pytest.param("I moved to Rome from Bath.", "I moved to Bath.", id="another value"),
        pytest.param("I like tea.", "I like coffee.", id="another thing"),
    ],
)
async def test_what_only_looks_the_same_is_stored(
    memory: Memory,
    richard: MemoryService,
    extractor: Scripted,
    known: str,
    new: str,
) -> None:
    extractor.known = {known: {}, new: {}}

    await tell(memory, richard, known, new)

    assert sorted(one.content for one in await facts(richard, f"{known} {new}")) == sorted(
        [known, new]
    )


async def test_further_detail_takes_the_place_of_the_shorter_statement(
    memory: Memory, richard: MemoryService, extractor: Scripted
) -> None:
    shorter, longer = "I work at Northwind.", "I work at Northwind as a chemist."
    extractor.known = {shorter: {}, longer: {}}

    await tell(memory, richard, shorter)
    await tell(memory, richard, longer, session="s2")

    assert [one.content for one in await facts(richard, "Northwind")] == [longer]


async def test_events_accumulate(
    memory: Memory, richard: MemoryService, extractor: Scripted
) -> None:
    extractor.known = {
        "I ran.": {"memory_type": "event"},
        "I ran a race.": {"memory_type": "event"},
    }

    await tell(memory, richard, "I ran.", "I ran a race.")

    assert len(await facts(richard, "ran race")) == 2


async def test_nothing_that_was_remembered_on_purpose_is_touched(
    memory: Memory, richard: MemoryService, extractor: Scripted
) -> None:
    extractor.known["I live in Bath."] = {}

    id_ = await remember(richard, "I live in Rome.")
    await tell(memory, richard, "I live in Bath.")

    assert id_ in {one.id for one in await facts(richard, "Where do I live?")}


async def test_what_is_forgotten_while_it_is_read_leaves_no_fact(
    memory: Memory, richard: MemoryService, extractor: Scripted, database: Database
) -> None:
    extractor.known["I live in Bath."] = HOME
    extractor.away = True
    await richard.intake.store_conversation([chat_message("I live in Bath.")], "s1")
    (task,) = await memory.ledger.backlog.claim({"extract": 9}, now=utc_now())
    (group,) = await memory.ledger.extraction.messages([task])
    extractor.away = False
    fact = fact_of("I live in Bath.", group.messages[0].id)

    await richard.erasure.erase(richard.erasure.selection(everything=True))
    (written,) = await memory.ledger.extraction.store([fact], [task], sources=[task.id])

    assert (written.was_new, await facts(richard, "Bath")) == (False, [])
    assert await relations(database, fact.record.id) == set()


async def test_what_was_forgotten_once_can_be_said_again_and_retires_nothing_wrongly(
    memory: Memory, richard: MemoryService, extractor: Scripted
) -> None:
    basel, bern = "I live in Basel.", "I live in Bern."
    extractor.known = {basel: HOME, bern: HOME}

    await tell(memory, richard, basel, session="h1")
    await richard.erasure.erase(richard.erasure.selection(session_id="h1"))
    await tell(memory, richard, bern, session="h2")
    await tell(memory, richard, f"Hello again. {basel}", session="h3")

    assert await richard.recall_topic("user.home") == basel


async def test_a_fact_of_two_sessions_outlives_one_of_them(
    memory: Memory, richard: MemoryService, extractor: Scripted
) -> None:
    extractor.known["I live in Bath."] = HOME
    await tell(memory, richard, "I live in Bath.", session="s1")
    (second,) = await tell(memory, richard, "As you know: I live in Bath.", session="s2")

    await richard.erasure.erase(richard.erasure.selection(session_id="s1"))

    (fact,) = await facts(richard, "Bath")
    assert second in sources_of(fact)
    await richard.erasure.erase(richard.erasure.selection(session_id="s2"))
    assert await facts(richard, "Bath") == []


async def test_a_full_batch_does_not_wait_for_more(
    memory: Memory, extractor: Scripted, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(extraction, "GATHERING", 3_600)
    texts = [f"Statement {number}." for number in range(extraction.BATCH_MESSAGES)]

    await memory.of(RICHARD).intake.store_conversation([chat_message(text) for text in texts])

    await eventually(lambda: sorted(extractor.messages()) == sorted(texts))
