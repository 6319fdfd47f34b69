"""What raises each score component."""

import math
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime, timedelta
from types import MappingProxyType
from typing import Any

import msgspec
import numpy as np
import pytest

from calling import caller_named
from local2.language.features import features
from local2.ledger.columns import ECHO, UNANSWERED, Candidate, Columns
from local2.ledger.engines.sqlite.database import Database
from local2.ledger.ledger import Ledger
from local2.ledger.records import stamp
from local2.ledger.search import DetailRequest, Details, Matches, Related, Source, run_choice
from local2.ledger.stored_vectors import packed
from local2.memory.intake.conversations import Turn
from local2.memory.recall import tuning
from local2.memory.recall.query import analyse
from local2.memory.recall.ranking import Draft, RankedRecord, Shares, rank
from local2.memory.recall.recaller import RecallRequest
from local2.memory.scopes import EQUAL_WEIGHTS, Reach, Weights
from local2.memory.tenant import Memory
from local2.settings import MemorySettings
from local2.vectors.joined import JoinedEmbedder

NOW = datetime(2026, 11, 20, 12, 0, tzinfo=UTC)
QUESTION = "dense metal osmium"
VECTOR = np.array([1, 0], np.float32).tobytes()
ASIDE = np.array([0.6, 0.8], np.float32).tobytes()
HALF = 1e-3
"""Relative error of numbers of 16 bits."""


def candidate(row: int, text: str = "", **fields: Any) -> Candidate:
    """Return a user's message in a separate session, of length 0, said now, without dense words."""
    at = fields.pop("at", NOW)
    usual: dict[str, Any] = dict.fromkeys(Candidate._fields)
    usual |= {
        "row": row,
        "id": str(row),
        "kind": "chat_message",
        "scope": "session",
        "source_class": "stated",
        "session_id": f"s{row}",
        "role": "user",
        "importance": 0.5,
        "durability": "core",
        "event_time": stamp(at),
        "echo": 0,
        "session_position": row,
        "active": 1,
        **features(text, topic=None, label=fields.get("label"), at=at)._asdict(),
        "length": 0,
        "density": 0,
    }
    if "vector" in fields:
        fields["vector"] = packed(fields["vector"])
    return Candidate(**{**usual, **fields})


def at_cosine(row: int, cosine: float, **fields: Any) -> Candidate:
    """A message whose vector has this cosine with `VECTOR`."""
    vector = np.array([cosine, math.sqrt(1 - cosine**2)], np.float32).tobytes()
    return candidate(row, **{"embedder": "e", "vector": vector, **fields})


def shares(*candidates: Candidate, **options: Any) -> dict[int, Shares]:
    """By their rows, best first."""
    return {one.row: one.shares for one in ranked(*candidates, **options)}


def ranked(
    *candidates: Candidate,
    query_text: str = QUESTION,
    continues: bool = False,
    feedback_weight: float = 0.1,
    weights: Weights = EQUAL_WEIGHTS,
    related: Mapping[int, list[int]] = MappingProxyType({}),
    sources: Mapping[int, Sequence[Source]] = MappingProxyType({}),
    texts: Mapping[int, str] = MappingProxyType({}),
    **found: Any,
) -> list[RankedRecord]:
    """Rank candidates, as found by their keys unless `found` says otherwise."""
    columns = Columns()
    columns.add(candidates)
    usual: dict[str, Any] = {
        "phrases": [],
        "topics": [one.row for one in candidates],
        "question": b"",
        "embedder": "",
        "min_score": 0.0,
        "floor": 0.0,
        "waiting": False,
        "problem": None,
    }
    every = Matches(view=columns.whole(), **{**usual, **found})
    query = msgspec.structs.replace(analyse(query_text, NOW), continues=continues)
    reach = Reach(caller=caller_named("richard"), weights=weights, places=())
    draft = Draft(query, reach, NOW, feedback_weight, every)

    def details(wanted: DetailRequest) -> Details:
        relations = {
            row: [Related(to, stated=False) for to in related[row]]
            for row in wanted.related
            if row in related
        }
        read = {row: texts.get(row, "") for row in wanted.texts}
        return Details(related=relations, sources=sources, texts=read)

    return list(run_choice(rank(every, draft, min_score=every.min_score), details).best_first())


@pytest.mark.parametrize("rating", [1.0, -1.0])
def test_a_greater_weight_never_lowers_a_record(rating: float) -> None:
    """This holds even for a record with a negative score."""
    weights = msgspec.structs.replace(EQUAL_WEIGHTS, user=2.0)
    facts = [
        candidate(row, scope=scope, feedback=rating, echo=ECHO)
        for row, scope in ((1, "tenant"), (2, "user"))
    ]

    best = ranked(*facts, weights=weights, feedback_weight=2.0)

    assert [one.row for one in best] == [2, 1]
    assert sum(msgspec.structs.astuple(best[0].shares)) * rating > 0


@pytest.mark.parametrize(
    "question", [QUESTION, "Who am I?", "it", "\N{SLIGHTLY SMILING FACE}", "\0"]
)
@pytest.mark.parametrize("echoes", [1, 2, tuning.MAX_READ, tuning.MAX_READ + 2, 301])
def test_no_chain_of_echoes_keeps_any_question_from_being_answered(
    question: str, echoes: int
) -> None:
    """Each echo repeats the one before; only the best echoes and their sources are read."""
    rows = range(1, echoes + 2)
    texts = {row: f"Osmium is dense, {row} times." for row in rows}
    said = [
        candidate(row, texts[row], echo=ECHO if row > 1 else 0, importance=row / len(rows))
        for row in rows
    ]
    sources = {row: [Source(row - 1, replaces=False)] for row in rows[1:]}

    best = ranked(*said, query_text=question, sources=sources, texts=texts)

    assert {record.row for record in best} == set(rows)


OTHERS = [candidate(row, "Gold.") for row in range(3, 9)]
"""Records without a word of the questions."""


@pytest.mark.parametrize(
    ("share", "query", "less", "more"),
    [
        ("words", "Dense metal osmium?", {"text": "Osmium."}, {"text": "Osmium, dense."}),
        ("coverage", QUESTION, {"text": "Dense metals."}, {"text": "Osmium is a dense metal."}),
        ("coverage", QUESTION, {"text": "Here is more of it. " * 60 + QUESTION},
         {"text": QUESTION}),
        ("speaker", QUESTION, {"label": "Bob"}, {"label": "Ann Osmium"}),
        ("firsthand", QUESTION, {"text": "Is my osmium here?"}, {"text": "My osmium."}),
        ("firsthand", "Ann?", {"text": "My osmium."}, {"text": "My osmium.", "label": "Ann"}),
        ("firsthand", "Ann?", {"text": "My osmium.", "label": "Ann"},
         {"text": "I, me, my and we: osmium.", "label": "Ann"}),
        ("timed", QUESTION, {"text": "I weighed it."}, {"text": "I weighed it last week."}),
        ("timed", QUESTION, {"text": "I weigh it? Last week?"},
         {"text": "I weighed it last week."}),
        ("timed", "When was osmium weighed?", {"text": "I weighed it."},
         {"text": "Weighed on Monday."}),
        ("time", "Osmium in May 2023?", {"at": datetime(2023, 6, 1, tzinfo=UTC)},
         {"at": datetime(2023, 5, 31, 23, tzinfo=UTC)}),
        ("time", "Osmium in May 2023?", {"at": datetime(2023, 4, 30, 23, tzinfo=UTC)},
         {"at": datetime(2023, 5, 1, tzinfo=UTC)}),
        ("density", QUESTION, {"role": "assistant", "density": 0.5}, {"density": 0.2}),
        ("density", QUESTION, {"role": "assistant", "density": 0.5},
         {"role": "tool", "source_class": "observed", "density": 0.2}),
        ("density", QUESTION, {"role": "tool", "source_class": "observed", "density": 0.5},
         {"density": 0.5}),
        ("density", QUESTION, {"density": 0.2}, {"density": 0.5}),
        ("importance", QUESTION, {"importance": 0.4}, {"importance": 0.5}),
        ("echo", QUESTION, {"echo": UNANSWERED}, {"echo": ECHO}),
        ("feedback", QUESTION, {"feedback": -0.5}, {"feedback": None}),
        ("age", QUESTION, {"at": NOW - timedelta(days=30)}, {"at": NOW}),
        ("age", QUESTION, {"durability": "ephemeral", "at": NOW - timedelta(days=9)},
         {"durability": "standard", "at": NOW - timedelta(days=9)}),
        ("age", QUESTION, {"durability": "standard", "at": NOW - timedelta(days=9)},
         {"durability": "core", "at": NOW - timedelta(days=9)}),
    ],
)  # fmt: skip
def test_a_property_of_a_record_raises_its_share(
    share: str, query: str, less: dict[str, Any], more: dict[str, Any]
) -> None:
    found = shares(candidate(1, **less), candidate(2, **more), *OTHERS, query_text=query)

    assert getattr(found[2], share) > getattr(found[1], share)


def test_a_record_of_no_stated_importance_is_neither_raised_nor_lowered() -> None:
    found = shares(candidate(1), candidate(2, importance=0.0), candidate(3, importance=1.0))

    assert found[1].importance == 0
    assert found[3].importance == -found[2].importance > 0


def test_neither_an_unrelated_record_nor_the_length_of_a_text_changes_the_share_of_words() -> None:
    long = candidate(1, "Osmium. " + "Nothing else matters. " * 200)

    found = shares(long, candidate(2, "Osmium."), *OTHERS, query_text="Osmium?")

    assert found[1].words == found[2].words == tuning.WORDS
    assert found[3].words == found[3].coverage == 0


def test_the_more_words_a_question_has_that_no_record_has_the_less_the_others_count() -> None:
    queries = ("osmium", "osmium kryptonite", "osmium kryptonite adamant")
    found = [shares(candidate(1, "Osmium."), *OTHERS, query_text=query)[1] for query in queries]

    assert [one.words for one in found] == sorted({one.words for one in found}, reverse=True)
    assert [one.coverage for one in found] == sorted({one.coverage for one in found}, reverse=True)


def test_where_the_question_tells_its_words_count_more_and_neighbours_less() -> None:
    talk = [candidate(1, "Osmium.", session_id="a"), candidate(2, session_id="a"), *OTHERS]

    asking = shares(*talk, query_text="Osmium?")
    telling = shares(*talk, query_text="I have it. It is osmium.")

    assert telling[1].words > asking[1].words
    part_of_asking, part_of_telling = (
        found[2].around / (found[1].words + found[1].coverage) for found in (asking, telling)
    )
    assert part_of_asking > part_of_telling > 0


def test_a_phrase_counts_in_addition_to_its_words() -> None:
    texts = [candidate(1, "Dense metal."), candidate(2, "Metal, dense."), candidate(3, "Gold.")]

    found = shares(*texts, query_text='"dense metal"', phrases=[[1]])

    assert found[1].words > 3 * found[2].words


def test_rare_words_count_more_in_coverage() -> None:
    found = shares(candidate(1, "Osmium."), *(candidate(row, "Metal.") for row in range(2, 6)))

    assert found[1].coverage > 2 * found[2].coverage > 0


@pytest.mark.parametrize("before", [0, 30, 300, 3_000])
def test_a_passage_counts_the_same_wherever_it_stands_after_the_beginning(before: int) -> None:
    filler = "Here is more of it. "
    long = 60 * filler + before * filler + "Osmium is a dense metal. " + 60 * filler

    found = shares(candidate(1, long, length=len(long)), candidate(2, QUESTION), *OTHERS)

    assert found[1].coverage == pytest.approx(tuning.PASSAGE_COVERAGE * tuning.COVERAGE)


def test_the_speaker_of_a_long_message_counts_in_each_of_its_passages() -> None:
    filler = "Here is more of it. " * 60
    by_ann = candidate(1, f"{filler} Osmium.", label="Ann")
    by_bob = candidate(2, f"{filler} Osmium.", label="Bob")
    long = [one._replace(length=2_000) for one in (by_ann, by_bob)]

    found = shares(*long, *OTHERS, query_text="Has Ann any osmium?")

    assert found[1].coverage > 1.5 * found[2].coverage > 0


def test_a_match_counts_less_with_its_distance_from_a_neighbour() -> None:
    texts = dict.fromkeys(range(9), "") | {4: "Osmium is a dense metal."}

    found = shares(*(candidate(row, text, session_id="a") for row, text in texts.items()))

    coverage = [found[row].coverage for row in texts]
    assert coverage == coverage[::-1]
    assert coverage[:5] == sorted(set(coverage))
    assert found[3].around > found[2].around > 0


def test_a_session_is_scored_by_its_coverage_relative_to_the_best() -> None:
    words = QUESTION.split()
    spread = [candidate(row, word, session_id="a") for row, word in enumerate(words)]
    poor = candidate(3, "Dense.", session_id="b")
    without_session = candidate(4, QUESTION, session_id=None, scope="user")

    found = shares(*spread, poor, candidate(5, QUESTION), candidate(6), without_session)

    assert [found[row].session for row in (0, 1, 2, 5)] == [tuning.SESSION] * 4
    assert 0 < found[3].session < tuning.SESSION / 2
    assert (found[4].session, found[6].session) == (0, 0)


def test_a_related_record_is_lifted_towards_the_best_that_leads_to_it() -> None:
    best: dict[str, Any] = {"embedder": "e", "vector": VECTOR}
    half: dict[str, Any] = {"embedder": "e", "vector": ASIDE}
    found = shares(
        candidate(1, **best), candidate(2, **half), candidate(3), candidate(4),
        related={1: [4, 9], 2: [3, 4]}, question=VECTOR, embedder="e",
    )  # fmt: skip

    assert [found[row].related for row in (1, 2)] == [0, 0]
    assert found[1].meaning > found[4].related > found[3].related > 0


def test_a_standing_wish_counts_in_sessions_with_an_assistant() -> None:
    wish = "Always answer in grams."
    found = shares(
        candidate(1, wish, session_id="a", embedder="e", vector=VECTOR),
        candidate(2, "Gladly.", role="assistant", session_id="a"),
        candidate(3, "I always do.", session_id="a"),
        candidate(4, wish, session_id="b", embedder="e", vector=VECTOR),
        candidate(5, wish, session_id="a"),
        question=VECTOR,
        embedder="e",
    )

    assert [found[row].wish > 0 for row in range(1, 6)] == [True, False, False, False, False]


def test_a_statement_that_continues_a_conversation_favours_the_newest_sessions() -> None:
    talk = [candidate(row, "Osmium.", session_id=f"s{row // 2}") for row in range(22)]
    statement = "I bought osmium. It is here."

    asking = shares(*talk, query_text="Osmium?", continues=True)
    searching = shares(*talk, query_text=statement)
    stating = shares(*talk, query_text=statement, continues=True)

    assert {each.recent for each in (*asking.values(), *searching.values())} == {0}
    recent = [stating[row].recent for row in (1, 19, 20)]
    assert recent == sorted(set(recent))
    assert stating[20].recent == stating[21].recent


def test_a_statement_is_compared_in_meaning_as_a_question_is() -> None:
    texts = [at_cosine(1, 0.9), at_cosine(2, 0.5)]

    asking, stating = (
        shares(*texts, query_text=query, question=VECTOR, embedder="e")
        for query in ("Osmium?", "I bought osmium. It is here.")
    )

    assert {row: found.meaning for row, found in stating.items()} == {
        row: found.meaning for row, found in asking.items()
    }


def test_a_conversation_with_the_words_counts_for_questions_only() -> None:
    asking, stating = (
        shares(candidate(1, "Osmium."), query_text=query)[1]
        for query in ("Osmium?", "I bought osmium. It is here.")
    )

    assert asking.session > stating.session == 0


def test_the_best_message_of_a_conversation_raises_all_of_it_for_statements_only() -> None:
    talk = [candidate(row, "Gold.", session_id="a") for row in range(2, 8)]
    talk += [candidate(1, "Osmium.", session_id="a"), candidate(8, "Gold.", session_id="b")]

    asking, stating = (
        shares(*talk, query_text=query) for query in ("Osmium?", "I bought osmium. It is here.")
    )

    assert {found.session_best for found in asking.values()} == {0}
    own = stating[1].words + stating[1].coverage
    assert stating[7].session_best == pytest.approx(tuning.SESSION_BEST * own, abs=1e-3)
    assert stating[8].session_best == 0


def test_of_a_statement_words_that_are_said_in_every_conversation_count_less() -> None:
    manner = [
        candidate(8 * session + place, "Gold." if place else "Silver.", session_id=f"s{session}")
        for session in range(1, 7)
        for place in range(8)
    ]
    matter = [candidate(row, "Osmium.", session_id="t") for row in range(100, 106)]

    asking, stating = (
        shares(*manner, *matter, query_text=query)
        for query in ("Osmium, silver?", "It is osmium. It is silver.")
    )

    assert asking[100].words == asking[8].words
    assert stating[100].words > stating[8].words
    assert stating[100].coverage > stating[8].coverage


def test_the_same_cosine_means_less_where_all_records_are_alike() -> None:
    def meaning_among(cosine: float) -> float:
        others = [at_cosine(row, cosine) for row in range(1, 2_000)]
        return shares(at_cosine(0, 0.5), *others, question=VECTOR, embedder="e")[0].meaning

    assert meaning_among(0.0) == 1.5  # the maximum
    assert meaning_among(0.4) < 0.5


def test_a_cosine_is_compared_with_those_that_unrelated_texts_have_with_its_embedder() -> None:
    """Those of the joined models are higher than those of most, and closer to one another."""

    def meaning(cosine: float, embedder: str) -> float:
        one = at_cosine(0, cosine, embedder=embedder)
        return shares(one, question=VECTOR, embedder=embedder)[0].meaning

    assert meaning(0.14, JoinedEmbedder.name) == 0 < meaning(0.14, "e")
    assert meaning(0.7, JoinedEmbedder.name) > meaning(0.7, "e")


def test_records_far_from_the_question_have_no_share_of_their_neighbours() -> None:
    """With a minimum of 0.2, they are left out below 0.1, and if nothing else is found."""
    before = candidate(1, QUESTION, session_id="a")
    after = [at_cosine(row, cosine, session_id="a") for row, cosine in ((2, 0.25), (3, 0.11))]
    apart = [at_cosine(4, 0.11), at_cosine(5, 0.09)]

    options: dict[str, Any] = {
        "question": VECTOR,
        "embedder": "e",
        "topics": [],
        "min_score": 0.2,
    }
    found = shares(before, *after, *apart, **options)

    assert found.keys() == {1, 2, 3, 4}
    assert shares(*apart, **options) == {}
    assert [found[row].around > 0 for row in (2, 3, 4)] == [True, False, False]


def test_cosines_are_counted_from_the_cosine_of_unrelated_texts() -> None:
    vectors = [candidate(1, embedder="e", vector=VECTOR), candidate(2, embedder="e", vector=ASIDE)]

    found = ranked(*vectors, candidate(3), question=VECTOR, embedder="e", floor=0.2)

    assert [one.cosine for one in found] == [1, pytest.approx(0.5, rel=HALF), None]


def test_a_record_better_than_those_leading_to_it_gains_nothing() -> None:
    found = shares(
        candidate(1, embedder="e", vector=VECTOR),
        candidate(2, embedder="e", vector=ASIDE),
        related={2: [1]},
        question=VECTOR,
        embedder="e",
    )

    assert [found[row].related for row in (1, 2)] == [0, 0]


async def test_the_configured_weight_of_ratings_counts(memory: Memory, database: Database) -> None:
    settings = MemorySettings(feedback_weight=0.5)
    ledger = Ledger(database, "default")
    weighing = Memory(ledger, memory.vectors, settings, announce=lambda _, __: None)
    richard = weighing.of(caller_named("richard"))
    await richard.intake.store_turn(Turn(query="?", answer="Osmium.", at=NOW, query_id="q1"))
    await richard.intake.store_rating("q1", -0.5)

    (item,) = (await richard.recall(RecallRequest(query="osmium", top_k=5))).items

    assert item.shares.feedback == -0.25
