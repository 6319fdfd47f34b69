"""Facts extracted from user messages: stored once, with their sources, and beside other facts."""

from datetime import UTC, datetime, timedelta
from typing import Any

import msgspec
import pytest

from calling import RICHARD
from indexed import indexed
from local2.errors import ModelError
from local2.ledger.engines.sqlite.database import Database
from local2.ledger.operations.extraction import ExtractedFact
from local2.ledger.records import EXTRACTED_FROM, NewRecord, Record, sources_of
from local2.memory.extraction import job
from local2.memory.extraction.extractor import USER, Item, Passage
from local2.memory.intake.conversations import Turn
from local2.memory.intake.intake import Question
from local2.memory.recall.recaller import RecallRequest
from local2.memory.service import MemoryService
from local2.memory.tenant import Memory, Models
from local2.protocol.envelope import Caller, utc_now
from local2.protocol.memories import Kind
from local2.protocol.payloads import Json, MemoryChange
from recalling import DAY, chat_message, recall, remember
from stored import relations, select
from waiting import eventually

HOME = {"topic": "user.home"}
DATABASE = {"topic": "project.database"}
FACTS: tuple[Kind, ...] = ("fact",)
ADA = msgspec.structs.replace(RICHARD, user="ada", session_id="s9")


class Scripted:
    """An extractor that finds the sentences it knows, unchanged."""

    def __init__(self) -> None:
        self.facts_by_text: dict[str, dict[str, Any]] = {}
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
            for text, about in self.facts_by_text.items()
            if one.role == USER and text in one.content
        ]

    def messages(self) -> list[str]:
        """Return the user messages that it was given."""
        every = [one for passage in self.passages for one in passage.messages]
        return [one.content for one in every if one.role == USER]


@pytest.fixture
def extractor() -> Scripted:
    return Scripted()


@pytest.fixture
def models(extractor: Scripted) -> Models:
    return Models(extractor=extractor)


async def wait_until_extracted(memory: Memory) -> None:
    async def nothing_is_pending() -> bool:
        return not any(count.kind == "extract" for count in await memory.ledger.backlog.counts())

    await eventually(nothing_is_pending)


async def send_and_extract(
    memory: Memory, service: MemoryService, *contents: str, **fields: Any
) -> list[str]:
    """Store a user's messages in a session, wait until they are extracted, and return their ids."""
    session = fields.pop("session", "s1")
    report = await service.intake.store_conversation(
        [chat_message(content, **fields) for content in contents], session
    )
    await wait_until_extracted(memory)
    return report.ids


async def facts(service: MemoryService, query: str, **ask: Any) -> list[Record]:
    found = await service.recall(RecallRequest(query=query, top_k=20, **{"kinds": FACTS, **ask}))
    return [item.record for item in found.items]


def fact_of(content: str, message: str) -> ExtractedFact:
    """Return a fact as the job makes it from a message."""
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


async def relations_of(database: Database, record_id: str) -> set[tuple[str, str]]:
    """Return type and target of a record's relations."""
    return {(type_, to) for source, type_, to in await relations(database) if source == record_id}


async def test_a_fact_is_found_with_its_source_message(
    memory: Memory,
    richard: MemoryService,
    extractor: Scripted,
    announced: list[tuple[str, MemoryChange]],
) -> None:
    extractor.facts_by_text["I live in Bath."] = HOME

    (message,) = await send_and_extract(memory, richard, "Hello! I live in Bath.")

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


async def test_if_both_are_searched_the_message_is_returned(
    memory: Memory, richard: MemoryService, extractor: Scripted
) -> None:
    extractor.facts_by_text["I live in Bath."] = HOME

    await send_and_extract(memory, richard, "Hello! I live in Bath.")

    assert await recall(richard, "Where do I live?") == ["Hello! I live in Bath."]


async def test_a_conversation_is_extracted_once_and_a_longer_one_from_its_new_messages(
    memory: Memory, richard: MemoryService, extractor: Scripted
) -> None:
    extractor.facts_by_text = {"I live in Bath.": {}, "I own a boat.": {}}

    await send_and_extract(memory, richard, "I live in Bath.")
    await send_and_extract(memory, richard, "I live in Bath.")
    await send_and_extract(memory, richard, "I live in Bath.", "I own a boat.")

    assert extractor.messages() == ["I live in Bath.", "I own a boat."]
    assert [one.content for one in extractor.passages[1].context] == ["I live in Bath."]
    assert len(await facts(richard, "Bath boat")) == 2


async def test_a_later_value_of_the_same_key_replaces_the_active_one(
    memory: Memory, richard: MemoryService, extractor: Scripted
) -> None:
    extractor.facts_by_text = {"I live in Bath.": HOME, "I live in Rome.": HOME}

    await send_and_extract(memory, richard, "I live in Bath.", "I live in Rome.")

    (fact,) = await facts(richard, "Where do I live?")
    versions = await richard.facts.history("user.home")
    assert fact.content == "I live in Rome."
    assert [(one.content, one.retired_why) for one in versions] == [
        ("I live in Rome.", None),
        ("I live in Bath.", "superseded"),
    ]


TUESDAY = "My checkup is on Tuesday."


@pytest.mark.parametrize(
    ("former", "present", "about"),
    [
        pytest.param(
            "I get up at six.", "I get up at seven now.", {}, id="an amount that holds now"
        ),
        pytest.param("I work at Northwind.", "I work at Northwind as a chemist.", {}, id="more"),
        pytest.param(
            TUESDAY, "My checkup is on Wednesday.", {"corrects": TUESDAY}, id="a correction"
        ),
    ],
)
async def test_what_has_no_key_is_replaced_by_what_says_so(
    memory: Memory,
    richard: MemoryService,
    extractor: Scripted,
    *,
    former: str,
    present: str,
    about: dict[str, Any],
) -> None:
    extractor.facts_by_text = {former: {}, present: about}

    await send_and_extract(memory, richard, former)
    await send_and_extract(memory, richard, present, session="s2")

    assert [fact.content for fact in await facts(richard, present)] == [present]


@pytest.mark.parametrize(
    ("query", "is_outdated"),
    [("Where do I work?", True), ("Where did I work before?", False)],
)
async def test_a_message_is_outdated_by_the_one_whose_fact_replaced_its_own(
    memory: Memory, richard: MemoryService, extractor: Scripted, query: str, is_outdated: bool
) -> None:
    former, present = "I work at Acme.", "Acme is history, Northwind has me now."
    extractor.facts_by_text = {one: {"topic": "user.employer"} for one in (former, present)}
    await send_and_extract(memory, richard, former, timestamp=DAY)
    (later,) = await send_and_extract(
        memory, richard, present, timestamp=DAY + timedelta(9), session="s2"
    )

    found = (await richard.recall(RecallRequest(query=query, top_k=5))).items

    outdated = {item.record.content: item.outdated_by for item in found}
    assert outdated[former] == (later if is_outdated else None)
    assert (found[0].record.content == present) == is_outdated


async def test_a_message_is_outdated_by_a_saved_fact_that_replaced_its_own(
    memory: Memory, richard: MemoryService, extractor: Scripted
) -> None:
    extractor.facts_by_text = {"I live in Bath.": HOME}
    await send_and_extract(memory, richard, "I live in Bath.", timestamp=DAY)
    saved = await richard.facts.store_topic("user.home", "Bergen")

    found = (await richard.recall(RecallRequest(query="Where do I live?", top_k=5))).items

    assert [(item.record.content, item.outdated_by) for item in found] == [
        ("Bergen", None),
        ("I live in Bath.", saved.id),
    ]


@pytest.mark.parametrize(
    ("query", "first"),
    [("Where do I live?", "I moved to Bergen."), ("Where does my sister live?", "My sister")],
)
async def test_a_message_with_a_fact_that_stands_answers_questions_about_it(
    memory: Memory, richard: MemoryService, extractor: Scripted, query: str, first: str
) -> None:
    of_sister, former, present = "My sister lives in Oslo", "I live in Bath", "I moved to Bergen."
    extractor.facts_by_text = {
        former: HOME,
        present: HOME,
        of_sister: {"topic": "user.sister.home"},
    }
    await send_and_extract(memory, richard, f"{of_sister}. {former}.", timestamp=DAY)
    await send_and_extract(memory, richard, present, timestamp=DAY + timedelta(9), session="s2")

    found = (await richard.recall(RecallRequest(query=query, top_k=5))).items

    assert found[0].record.content.startswith(first)
    assert found[0].outdated_by is None


async def test_an_earlier_statement_that_arrives_later_replaces_nothing(
    memory: Memory, richard: MemoryService, extractor: Scripted
) -> None:
    extractor.facts_by_text = {"I live in Bath.": HOME, "I live in Rome.": HOME}

    await send_and_extract(memory, richard, "I live in Rome.", timestamp=DAY)
    await send_and_extract(
        memory, richard, "I live in Bath.", timestamp=DAY - timedelta(9), session="s2"
    )

    assert await richard.recall_topic("user.home") == "I live in Rome."
    assert [one.content for one in await facts(richard, "Where do I live?")] == ["I live in Rome."]
    assert len(await richard.facts.history("user.home")) == 2


async def test_a_statement_dated_in_the_future_is_replaced_by_a_later_one(
    memory: Memory, richard: MemoryService, extractor: Scripted
) -> None:
    extractor.facts_by_text = {"I live in Bath.": HOME, "I live in Rome.": HOME}
    future = datetime(9999, 1, 1, tzinfo=UTC)

    await send_and_extract(memory, richard, "I live in Bath.", timestamp=future)
    await send_and_extract(memory, richard, "I live in Rome.", session="s2")

    assert await richard.recall_topic("user.home") == "I live in Rome."


async def test_a_known_fact_is_not_stored_again_but_gains_a_source(
    memory: Memory, richard: MemoryService, extractor: Scripted, database: Database
) -> None:
    extractor.facts_by_text["I live in Bath."] = {}

    first = await send_and_extract(memory, richard, "I live in Bath.")
    second = await send_and_extract(memory, richard, "As you know, I live in Bath.", session="s2")

    (fact,) = await facts(richard, "Bath")
    assert await relations_of(database, fact.id) == {
        ("derived_from", id_) for id_ in (*first, *second)
    }


async def test_a_value_stored_by_an_agent_stays_if_the_user_says_the_same(
    memory: Memory, richard: MemoryService, extractor: Scripted
) -> None:
    extractor.facts_by_text["My language is Elixir."] = {"topic": "user.language"}
    await richard.write_topic("user.language", "Elixir")

    await send_and_extract(memory, richard, "My language is Elixir.")

    assert await richard.recall_topic("user.language") == "Elixir"


async def test_another_users_statement_contradicts_but_does_not_replace(
    memory: Memory, richard: MemoryService, extractor: Scripted, database: Database
) -> None:
    postgres, mongo = "We run PostgreSQL 16.", "We run MongoDB 7."
    extractor.facts_by_text = {postgres: DATABASE, mongo: DATABASE}

    await send_and_extract(memory, richard, postgres)
    await send_and_extract(memory, memory.of(ADA), mongo, session="s9")

    assert await richard.recall_topic("project.database") == postgres
    (other,) = [
        one for one in await facts(richard, "MongoDB", scope="tenant") if one.content == mongo
    ]
    active = await richard.facts.topic("project.database")
    assert active is not None
    assert ("contradicts", active.id) in await relations_of(database, other.id)


async def test_a_fact_for_everybody_is_also_stored_for_the_agent(
    memory: Memory, richard: MemoryService, extractor: Scripted
) -> None:
    extractor.facts_by_text["We run PostgreSQL 16."] = DATABASE

    await send_and_extract(memory, richard, "We run PostgreSQL 16.")

    found = await facts(richard, "PostgreSQL", scope="tenant")
    for_agent = await facts(richard, "PostgreSQL", scope="agent")
    assert [(one.scope, one.owner) for one in (*found, *for_agent)] == [
        ("tenant", ""),
        ("agent", "shell"),
    ]
    assert await facts(richard, "PostgreSQL", scope="user") == []


async def test_a_task_belongs_to_its_session_and_counts_less_outside_it(
    memory: Memory, richard: MemoryService, extractor: Scripted
) -> None:
    extractor.facts_by_text["I have to fix the osmium parser."] = {"memory_type": "task"}
    await send_and_extract(memory, richard, "I have to fix the osmium parser.")

    ask = RecallRequest(query="osmium parser", top_k=5, kinds=FACTS)
    here = (await richard.recall(ask)).items[0]
    in_other_session = memory.of(msgspec.structs.replace(RICHARD, session_id="s2"))
    outside = (await in_other_session.recall(ask)).items[0]

    assert (here.record.scope, here.record.session_id) == ("session", "s1")
    assert outside.weight < here.weight
    waiting = {count.kind: count.waiting for count in await memory.ledger.backlog.counts()}
    assert waiting == {"index": 1}, "the message, not the task"


async def test_editing_a_message_retires_the_facts_that_it_no_longer_states(
    memory: Memory, richard: MemoryService, extractor: Scripted
) -> None:
    extractor.facts_by_text = {"I live in Bath.": {}, "I live in Rome.": {}, "I own a boat.": {}}
    await send_and_extract(memory, richard, "I live in Bath. I own a boat.", id="m1")

    await send_and_extract(memory, richard, "I live in Rome. I own a boat.", id="m1")

    found = [one.content for one in await facts(richard, "Bath Rome boat")]
    assert sorted(found) == ["I live in Rome.", "I own a boat."]


async def test_a_message_edited_twice_before_it_is_read_states_only_the_newest(
    memory: Memory, richard: MemoryService, extractor: Scripted
) -> None:
    extractor.facts_by_text = {"I own a boat.": {}, "My editor is Helix.": {}}
    await send_and_extract(memory, richard, "I own a boat.", id="m1")

    await send_and_extract(memory, richard, "I own a car.", "My editor is Helix.", id="m1")

    found = [one.content for one in await facts(richard, "boat editor")]
    assert found == ["My editor is Helix."]


async def test_a_received_question_is_extracted_again_with_its_answer(
    memory: Memory, richard: MemoryService, extractor: Scripted
) -> None:
    question = Question(text="I live in Bath.", at=DAY, session_id="s1", query_id="q", named=True)
    await richard.intake.store_question(question)
    await wait_until_extracted(memory)

    turn = Turn(query=question.text, answer="Noted.", at=DAY, session_id="s1", query_id="q")
    await richard.intake.store_turn(turn)
    await wait_until_extracted(memory)

    assert [len(passage.messages) for passage in extractor.passages] == [1, 2]


async def test_while_the_model_is_down_messages_are_found_and_wait(
    memory: Memory, richard: MemoryService, extractor: Scripted
) -> None:
    extractor.facts_by_text["I live in Bath."] = HOME
    extractor.away = True

    report = await richard.intake.store_conversation([chat_message("I live in Bath.")], "s1")
    assert report.added == 1
    assert await recall(richard, "Bath") == ["I live in Bath."]
    extractor.away = False
    await wait_until_extracted(memory)

    assert await richard.recall_topic("user.home") == "I live in Bath."


@pytest.mark.parametrize(
    ("first", "new", "memory_type"),
    [
        pytest.param("I like tea.", "I don't like tea pots.", "fact", id="a denial"),
        pytest.param("I moved to Rome from Bath.", "I moved to Bath.", "fact", id="another value"),
        pytest.param("I like tea.", "I like coffee.", "fact", id="another thing"),
        pytest.param("I ran.", "I ran a race.", "event", id="events"),
    ],
)
async def test_a_fact_that_only_looks_the_same_is_stored(
    memory: Memory,
    richard: MemoryService,
    extractor: Scripted,
    *,
    first: str,
    new: str,
    memory_type: str,
) -> None:
    extractor.facts_by_text = {text: {"memory_type": memory_type} for text in (first, new)}

    await send_and_extract(memory, richard, first, new)

    assert sorted(one.content for one in await facts(richard, f"{first} {new}")) == sorted(
        [first, new]
    )


async def test_a_fact_that_was_stored_explicitly_is_not_changed(
    memory: Memory, richard: MemoryService, extractor: Scripted
) -> None:
    extractor.facts_by_text["I live in Bath."] = {}

    id_ = await remember(richard, "I live in Rome.")
    await send_and_extract(memory, richard, "I live in Bath.")

    assert id_ in {one.id for one in await facts(richard, "Where do I live?")}


async def test_a_message_forgotten_during_extraction_leaves_no_fact(
    memory: Memory, richard: MemoryService, extractor: Scripted, database: Database
) -> None:
    extractor.facts_by_text["I live in Bath."] = HOME
    extractor.away = True
    await richard.intake.store_conversation([chat_message("I live in Bath.")], "s1")
    (task,) = await memory.ledger.backlog.claim({"extract": 9}, now=utc_now())
    await memory.ledger.extraction.messages([task])
    extractor.away = False
    fact = fact_of("I live in Bath.", task.id)

    await richard.erasure.erase(richard.erasure.selection(everything=True))
    stored = await memory.ledger.extraction.store(
        [fact], [task], sources=[task.id], owners=["richard"]
    )
    (written,) = stored.written

    assert (written.was_new, await facts(richard, "Bath")) == (False, [])
    assert await relations_of(database, fact.record.id) == set()


async def test_a_forgotten_statement_can_be_made_again_and_becomes_active(
    memory: Memory, richard: MemoryService, extractor: Scripted
) -> None:
    basel, bern = "I live in Basel.", "I live in Bern."
    extractor.facts_by_text = {basel: HOME, bern: HOME}

    await send_and_extract(memory, richard, basel, session="h1")
    await richard.erasure.erase(richard.erasure.selection(session_id="h1"))
    await send_and_extract(memory, richard, bern, session="h2")
    await send_and_extract(memory, richard, f"Hello again. {basel}", session="h3")

    assert await richard.recall_topic("user.home") == basel


async def test_a_fact_from_two_sessions_survives_forgetting_one_of_them(
    memory: Memory, richard: MemoryService, extractor: Scripted
) -> None:
    extractor.facts_by_text["I live in Bath."] = HOME
    await send_and_extract(memory, richard, "I live in Bath.", session="s1")
    (second,) = await send_and_extract(
        memory, richard, "As you know: I live in Bath.", session="s2"
    )

    await richard.erasure.erase(richard.erasure.selection(session_id="s1"))

    (fact,) = await facts(richard, "Bath")
    assert second in sources_of(fact)
    await richard.erasure.erase(richard.erasure.selection(session_id="s2"))
    assert await facts(richard, "Bath") == []


async def test_a_full_batch_does_not_wait_for_more(
    memory: Memory, extractor: Scripted, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(job, "GATHERING", 3_600)
    texts = [f"Statement {number}." for number in range(job.BATCH_MESSAGES)]

    await memory.of(RICHARD).intake.store_conversation([chat_message(text) for text in texts])

    await eventually(lambda: sorted(extractor.messages()) == sorted(texts))


ACME, LEFT = "I work at Acme.", "I no longer work at Acme."
EMPLOYER = {"topic": "user.employer"}


async def test_what_its_user_ends_is_retired_without_a_successor(
    memory: Memory,
    richard: MemoryService,
    extractor: Scripted,
    database: Database,
    announced: list[tuple[str, MemoryChange]],
) -> None:
    extractor.facts_by_text = {ACME: EMPLOYER}
    await send_and_extract(memory, richard, ACME)

    (message,) = await send_and_extract(memory, richard, LEFT, session="s2")

    assert await richard.recall_topic("user.employer") is None
    assert await facts(richard, "Acme") == []
    (version,) = await richard.facts.history("user.employer")
    assert (version.content, version.superseded_by, version.retired_why) == (
        ACME, "", "contradicted",
    )  # fmt: skip
    assert version.id in {change.id for _, change in announced if change.why == "contradicted"}
    ((reason,),) = await select(
        database, "SELECT reason FROM audit WHERE record_id = ?", version.id
    )
    assert message in reason
    assert await richard.facts.reasons([version]) == {version.id: reason}


async def test_what_was_ended_may_be_true_again(
    memory: Memory, richard: MemoryService, extractor: Scripted
) -> None:
    extractor.facts_by_text = {ACME: EMPLOYER}

    await send_and_extract(memory, richard, ACME, LEFT, "I came back. I work at Acme.")

    assert await richard.recall_topic("user.employer") == ACME
    assert [one.retired_why for one in await richard.facts.history("user.employer")] == [
        None, "contradicted",
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("caller", "said"),
    [
        pytest.param(RICHARD, {"timestamp": DAY - timedelta(9)}, id="earlier"),
        pytest.param(ADA, {}, id="by another user"),
        pytest.param(RICHARD, {"role": "assistant"}, id="by an assistant"),
    ],
)
async def test_only_a_later_statement_of_the_user_ends_what_the_user_stated(
    memory: Memory, richard: MemoryService, extractor: Scripted, caller: Caller, said: Json
) -> None:
    extractor.facts_by_text = {ACME: EMPLOYER}
    await send_and_extract(memory, richard, ACME, timestamp=DAY)

    await send_and_extract(memory, memory.of(caller), LEFT, session="s2", **said)

    assert await richard.recall_topic("user.employer") == ACME


async def test_an_end_leaves_what_a_model_or_tool_stored(
    memory: Memory, richard: MemoryService
) -> None:
    await richard.facts.store_topic("user.employer", ACME)

    await send_and_extract(memory, richard, LEFT)

    assert await richard.recall_topic("user.employer") == ACME


async def test_what_was_said_just_before_can_be_taken_back(
    memory: Memory, richard: MemoryService, extractor: Scripted
) -> None:
    extractor.facts_by_text = {ACME: EMPLOYER}
    await send_and_extract(memory, richard, ACME)

    await send_and_extract(memory, richard, "Forget that.")

    assert await richard.recall_topic("user.employer") is None


@pytest.mark.parametrize(
    ("subscribed", "left"),
    [
        (["I subscribe to The Lapwing."], []),
        (["I subscribe to The Lapwing.", "I subscribe to Le Monde."], ["Lapwing", "Monde"]),
    ],
)
async def test_the_name_of_a_kind_ends_the_only_fact_of_that_kind(
    memory: Memory,
    richard: MemoryService,
    extractor: Scripted,
    subscribed: list[str],
    left: list[str],
) -> None:
    extractor.facts_by_text = {text: {} for text in subscribed}
    await send_and_extract(memory, richard, *subscribed)

    await send_and_extract(memory, richard, "I've cancelled the magazine.", session="s2")

    found = {fact.content for fact in await facts(richard, "subscribe")}
    assert sorted(word for word in ("Lapwing", "Monde") if word in " ".join(found)) == left


@pytest.mark.usefixtures("searchable")
async def test_facts_extracted_from_two_messages_do_not_hide_that_both_are_about_the_same(
    memory: Memory, richard: MemoryService, extractor: Scripted
) -> None:
    golf, tesla = "Mein Auto ist ein Golf.", "Mein Auto ist ein Tesla."
    extractor.facts_by_text = {golf: {"topic": "user.car"}, tesla: {"topic": "user.car"}}
    others = ("Der Chor singt Bach.", "Es regnet seit Montag.", "Ich brauche neue Batterien.")
    await send_and_extract(memory, richard, others[0], golf, *others[1:])
    await send_and_extract(memory, richard, tesla, "Das Paket ist da.", session="s2")
    await indexed(memory)

    found = await richard.recall(
        RecallRequest(query="Was für ein Auto habe ich?", top_k=9, with_later=True)
    )

    (older,) = [item for item in found.items if item.record.content == golf]
    assert [one.content for one in older.later] == [tesla]
