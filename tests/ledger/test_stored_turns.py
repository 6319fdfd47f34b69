"""Turns, conversations and messages received before them: stored once, and the newest is active."""

from datetime import timedelta
from typing import Any

import msgspec
import pytest

from ledgers import DAY, OWNER, message, record
from local2.ledger.ledger import Ledger
from local2.ledger.operations import turns
from local2.ledger.operations.sessions import SessionKey
from local2.ledger.operations.turns import Rating
from local2.ledger.records import NewRecord, Record, Written

QUESTION = message("Which metal?", id="t1", turn="t1", query_id="q1")
RESULT = message(
    "22.59 g",
    id="t1 result",
    kind="tool_output",
    role="tool",
    label="weigh",
    source_ref="c1",
    turn="t1",
    query_id="q1",
    metadata={"args": {"metal": "osmium"}},
)


def turn(answer: str, minutes: int = 0) -> list[NewRecord]:
    """Return the records of a turn, of which another answer makes different ones."""
    turn_fields: dict[str, Any] = {
        "turn": "t1",
        "query_id": "q1",
        "event_time": DAY + timedelta(minutes=minutes),
    }
    episode = record(f"Q: Which metal?\nA: {answer}", id=f"t1 episode {answer}", **turn_fields)
    reply = message(answer, id=f"t1 reply {answer}", role="assistant", **turn_fields)
    return [episode, QUESTION, RESULT, reply]


def rating(score: float, minutes: int = 0, **fields: Any) -> Rating:
    usual = {"owner": OWNER, "query_id": "q1", "session_id": None, "comment": None}
    at = DAY + timedelta(minutes=minutes)
    return Rating(**{**usual, "score": score, "event_time": at, **fields})


async def stored(ledger: Ledger, written: Written) -> Record:
    return next(one for one in await ledger.records.chain(written.id) if one.id == written.id)


async def test_a_later_answer_replaces_the_older_one(ledger: Ledger) -> None:
    older = await ledger.turns.store(turn("Lead."))
    newer = await ledger.turns.store(turn("Osmium.", minutes=1))

    assert (newer[0].replaced, newer[3].replaced) == ((older[0].id,), (older[3].id,))
    assert [newer[n].was_new for n in (1, 2)] == [False, False]
    assert (await stored(ledger, older[0])).superseded_by == newer[0].id


async def test_an_older_answer_that_arrives_late_becomes_history(ledger: Ledger) -> None:
    newer = await ledger.turns.store(turn("Osmium.", minutes=1))
    late = await ledger.turns.store(turn("Lead."))

    assert (late[0].was_new, late[0].superseded_by) == (True, newer[0].id)
    assert (await stored(ledger, newer[0])).superseded_by is None


async def test_the_last_rating_of_an_answer_counts(ledger: Ledger) -> None:
    episode, *_ = await ledger.turns.store(turn("Osmium."))

    await ledger.turns.rate(rating(-1, minutes=2))
    await ledger.turns.rate(rating(0.5, minutes=3))
    await ledger.turns.rate(rating(1, minutes=1))

    assert (await stored(ledger, episode)).score == 0.5


async def test_a_rating_waits_for_its_answer(ledger: Ledger, other: Ledger) -> None:
    await ledger.turns.rate(rating(1))

    mine, *_ = await ledger.turns.store(turn("Osmium."))
    theirs, *_ = await other.turns.store(turn("Osmium."))

    assert (await stored(ledger, mine)).score == 1
    assert (await stored(other, theirs)).score is None


async def test_received_messages_are_completed_by_their_turn(ledger: Ledger) -> None:
    question = await ledger.unreported.store(msgspec.structs.replace(QUESTION, pending=True))
    received = msgspec.structs.replace(RESULT, id="heard", turn=None, source_ref=None, pending=True)
    result = await ledger.unreported.store(received)

    _, reported, result_in_turn, _ = await ledger.turns.store(turn("Osmium."))

    assert (reported.id, reported.was_new) == (question.id, False)
    assert (result_in_turn.id, result_in_turn.was_new) == (result.id, False)
    assert (await stored(ledger, result_in_turn)).pending is False
    assert (await stored(ledger, result_in_turn)).source_ref == "c1"


async def test_a_message_received_after_its_turn_adds_nothing(ledger: Ledger) -> None:
    result_in_turn = (await ledger.turns.store(turn("Osmium.")))[2]

    received = await ledger.unreported.store(
        msgspec.structs.replace(RESULT, id="heard", turn=None, pending=True)
    )

    assert (received.id, received.was_new) == (result_in_turn.id, False)


async def test_each_answer_follows_its_question_though_the_next_ones_were_asked_before(
    ledger: Ledger,
) -> None:
    numbers = range(1, 5)
    columns: dict[int, dict[str, Any]] = {
        n: {"turn": f"t{n}", "query_id": f"q{n}"} for n in numbers
    }
    questions = {n: message(f"Question {n}", id=f"t{n}", **columns[n]) for n in numbers}
    for question in questions.values():
        await ledger.unreported.store(msgspec.structs.replace(question, pending=True))
    for n in (2, 1, 4, 3):
        episode = record(f"Q: Question {n}\nA: Answer {n}", **columns[n])
        reply = message(f"Answer {n}", role="assistant", **columns[n])
        await ledger.turns.store([episode, questions[n], reply])

    session = await ledger.sessions.load(SessionKey(OWNER, "s1"), 9, (), lambda loaded: loaded)

    assert [said.content for said in session.messages] == [
        text for n in numbers for text in (f"Question {n}", f"Answer {n}")
    ]


async def test_many_calls_keep_their_order_though_the_next_question_was_asked_before(
    ledger: Ledger, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(turns, "RECORDS_PER_TRANSACTION", 10)
    for question in (QUESTION, message("And which gas?", id="t2", turn="t2", query_id="q2")):
        await ledger.unreported.store(msgspec.structs.replace(question, pending=True))
    episode, _, _, reply = turn("Osmium.")
    weighed = [f"{number} g" for number in range(30)]
    calls = [
        msgspec.structs.replace(RESULT, id=said, content=said, source_ref=said) for said in weighed
    ]
    for part in turns.parts_of([episode, QUESTION, *calls, reply]):
        await ledger.turns.store(part)

    session = await ledger.sessions.load(SessionKey(OWNER, "s1"), 9_999, (), lambda loaded: loaded)

    assert [said.content for said in session.messages] == [
        "Which metal?",
        *weighed,
        "Osmium.",
        "And which gas?",
    ]


async def test_an_edited_message_is_a_newer_version(ledger: Ledger) -> None:
    await ledger.conversations.store([message("Osmum.", id="m1")])

    (edited,) = await ledger.conversations.store([message("Osmium.", id="m1")])
    (again,) = await ledger.conversations.store([message("Osmium.", id="m1")])

    assert (edited.was_new, edited.replaced) == (True, ("m1",))
    assert (again.id, again.was_new) == (edited.id, False)
    chain = await ledger.records.chain("m1")
    assert [one.content for one in chain] == ["Osmium.", "Osmum."]


def chunks(*texts: str) -> list[NewRecord]:
    return [
        record(
            text, kind="document_chunk", scope="tenant", owner="", source_ref=f"a#{n}", label="A"
        )
        for n, text in enumerate(texts, start=1)
    ]


async def test_a_documents_chunks_that_differ_are_replaced(ledger: Ledger) -> None:
    first = (await ledger.documents.store("a", chunks("One.", "Two.", "Three."))).written

    rewritten = await ledger.documents.store("a", chunks("One.", "2."))

    one, two = rewritten.written
    assert (one.id, one.was_new) == (first[0].id, False)
    assert (two.was_new, two.replaced) == (True, (first[1].id,))
    assert rewritten.surplus == [first[2].id]


async def test_any_part_of_a_document_is_that_part_of_the_whole(ledger: Ledger) -> None:
    texts = ["One.", *(f"{n}." for n in range(2, 12)), "ß"]
    whole = "\n\n".join(texts)
    await ledger.documents.store("a", chunks(*texts))

    for offset in range(len(whole) + 2):
        for limit in (1, 5, 1_000):
            part = await ledger.documents.read("a", offset, limit)
            assert part is not None
            assert (part.text, part.total) == (whole[offset : offset + limit], len(whole))


async def test_a_document_imported_without_labels_is_listed_by_its_source(ledger: Ledger) -> None:
    (chunk,) = chunks("Osmium is a metal.")
    await ledger.documents.store("a", [msgspec.structs.replace(chunk, label=None)])

    (listed,) = await ledger.documents.listed(10, None)
    read = await ledger.documents.read("a", 0, 100)

    assert read is not None
    assert (listed.title, read.title) == ("a", "a")
