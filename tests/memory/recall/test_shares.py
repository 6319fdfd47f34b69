"""What each share of a score comes to, by the numbers that docs/recall.md tells."""

import re
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import pytest

from local.database import Database
from local.memory.ingestion import Turn
from local.memory.places import ALIKE, Reach, Weights
from local.memory.recall import ranking
from local.memory.recall.candidates import Candidate
from local.memory.recall.query import analyse
from local.memory.recall.ranking import Ranked, Shares, rank
from local.memory.recall.recaller import Ask
from local.memory.recall.retrieval import Found
from local.memory.records import stamp
from local.memory.service import Memory
from local.protocol.caller import Caller
from local.protocol.payloads import MemoryChange
from local.settings import MemorySettings

DOCS = Path(__file__).parents[3] / "docs" / "recall.md"
MINUS = "\N{MINUS SIGN}"
NOW = datetime(2026, 11, 20, 12, 0, tzinfo=UTC)
QUESTION = "dense metal osmium"
VECTOR = np.array([1, 0], np.float32).tobytes()
ASIDE = np.array([0.6, 0.8], np.float32).tobytes()


def candidate(row: int, text: str = "", **fields: Any) -> Candidate:
    """A user's message in a session of its own, of no length and said now."""
    usual: dict[str, Any] = dict.fromkeys(Candidate._fields)
    usual |= {
        "row": row,
        "id": str(row),
        "scope": "session",
        "session_id": f"s{row}",
        "role": "user",
        "importance": 0.5,
        "durability": "core",
        "event_time": stamp(fields.pop("at", NOW)),
        "length": 0,
        "text": text,
    }
    return Candidate(**{**usual, **fields})


def shares(*candidates: Candidate, **asked: Any) -> dict[int, Shares]:
    """By their rows, best first."""
    return {one.candidate.row: one.shares for one in ranked(*candidates, **asked)}


def ranked(
    *candidates: Candidate,
    asked: str = QUESTION,
    feedback_weight: float = 0.1,
    weights: Weights = ALIKE,
    **found: Any,
) -> list[Ranked]:
    """Candidates that full text found, all with the same BM25."""
    usual: dict[str, Any] = {
        "words": {one.row: 1.0 for one in candidates},
        "topics": frozenset(),
        "related": {},
        "question": b"",
        "embedder": "",
        "min_score": 0.0,
        "waiting": False,
        "problem": None,
    }
    every = Found(candidates=list(candidates), **{**usual, **found})
    query = analyse(asked, NOW)
    reach = Reach(caller=Caller(user="richard"), weights=weights, places=())
    best = rank(every, query, reach, now=NOW, min_score=0, feedback_weight=feedback_weight)
    return list(best)


@pytest.mark.parametrize("rating", [1.0, -1.0])
def test_a_greater_weight_never_lowers(rating: float) -> None:
    """Not even what has less than nothing."""
    weights = msgspec.structs.replace(ALIKE, user=2.0)
    facts = [
        candidate(row, scope=scope, feedback=rating) for row, scope in ((1, "tenant"), (2, "user"))
    ]

    best = ranked(*facts, weights=weights, feedback_weight=1.0)

    assert [one.candidate.row for one in best] == [2, 1]
    assert sum(msgspec.structs.astuple(best[0].shares)) * rating > 0


def test_words_count_against_the_best_ones() -> None:
    found = shares(candidate(1), candidate(2), words={1: 8.0, 2: 2.0})

    assert [found[row].words for row in (1, 2)] == [0.3, 0.075]


def test_coverage_is_whole_where_every_word_of_the_question_stands() -> None:
    texts = ["Osmium is a dense metal.", "Dense metals.", "Sleep."]

    found = shares(*(candidate(row, text) for row, text in enumerate(texts)))

    assert found[0].coverage == 0.4
    assert 0 < found[1].coverage < 0.4
    assert found[2].coverage == 0


def test_rare_words_count_more_in_the_coverage() -> None:
    found = shares(candidate(1, "Osmium."), *(candidate(row, "Metal.") for row in range(2, 6)))

    assert found[1].coverage > 2 * found[2].coverage > 0


def test_a_word_of_the_message_before_or_after_counts_less() -> None:
    asked = candidate(2, "Osmium is a dense metal.", next=3, previous=1)

    found = shares(candidate(1, next=2), asked, candidate(3, previous=2))

    assert [found[row].coverage for row in (1, 2, 3)] == [0.24, 0.4, 0.24]


def test_messages_around_add_some_of_their_words_and_meaning() -> None:
    """0.15 of what each got for meaning, words and coverage, half of it around a long message."""
    best: dict[str, Any] = {"text": "Osmium is a dense metal.", "embedder": "e", "vector": VECTOR}
    asked = [candidate(1, **best), candidate(3, **best)]
    between = candidate(2, previous=1, next=3)
    long = candidate(2, previous=1, next=3, length=1_200)
    found: dict[str, Any] = {"words": {1: 1.0, 3: 1.0}, "question": VECTOR, "embedder": "e"}

    assert shares(*asked, between, **found)[2].around == 0.51
    assert shares(*asked, long, **found)[2].around == 0.255
    assert shares(*asked, long, **found)[2].coverage == 0.12


def test_a_session_counts_by_what_all_of_it_covers_against_the_best() -> None:
    words = QUESTION.split()
    spread = [candidate(row, word, session_id="a") for row, word in enumerate(words)]
    poor = candidate(3, "Dense.", session_id="b")
    of_none = candidate(4, QUESTION, session_id=None, scope="user")

    found = shares(*spread, poor, candidate(5, QUESTION), candidate(6), of_none)

    assert [found[row].session for row in (0, 1, 2, 5)] == [0.3] * 4
    assert 0 < found[3].session < 0.15
    assert (found[4].session, found[6].session) == (0, 0)


def test_meaning_is_the_cosine_with_vectors_of_the_same_embedder() -> None:
    found = shares(
        candidate(1, embedder="e", vector=VECTOR),
        candidate(2, embedder="e", vector=ASIDE),
        candidate(3, embedder="another", vector=VECTOR),
        candidate(4),
        question=VECTOR,
        embedder="e",
    )

    assert [found[row].meaning for row in (1, 2, 3, 4)] == [1, 0.6, 0, 0]


def test_what_is_related_is_lifted_towards_the_best_that_leads_to_it() -> None:
    by_words = {1: 1.0, 2: 0.5, 3: 0.0, 4: 0.0}
    related = {1: [4, 9], 2: [3, 4]}

    found = shares(*map(candidate, by_words), words=by_words, related=related)

    assert [found[row].related for row in by_words] == [0, 0, 0.09, 0.18]


def test_what_is_better_than_what_leads_to_it_gains_nothing() -> None:
    found = shares(candidate(1), candidate(2), words={1: 1.0, 2: 0.5}, related={2: [1]})

    assert [found[row].related for row in (1, 2)] == [0, 0]


@pytest.mark.parametrize(
    ("share", "plain", "other", "expected"),
    [
        ("speaker", {"label": "Bob"}, {"label": "Ann Osmium"}, [0, 0.1]),
        ("machine", {}, {"role": "assistant"}, [0, -0.2]),
        ("machine", {"role": "system"}, {"role": "tool"}, [0, -0.2]),
        ("importance", {"importance": 0.0}, {"importance": 1.0}, [-0.1, 0.1]),
        ("recalled", {"recalled": 0}, {"recalled": 1}, [0, -0.3]),
        ("feedback", {"feedback": None}, {"feedback": -0.5}, [0, -0.05]),
    ],
)
def test_what_is_known_of_a_record_counts(
    share: str, plain: dict[str, Any], other: dict[str, Any], expected: list[float]
) -> None:
    found = shares(candidate(1, **plain), candidate(2, **other))

    assert [getattr(found[row], share) for row in (1, 2)] == expected


def test_the_time_and_the_topic_that_are_asked_for_count() -> None:
    days = [(4, 30, 23), (5, 1, 0), (5, 31, 23), (6, 1, 0)]
    times = [datetime(2023, *day, tzinfo=UTC) for day in days]
    spring = [candidate(row, at=moment) for row, moment in enumerate(times)]

    found = shares(*spring, asked="Osmium in May 2023?", topics=frozenset({0}))

    assert [found[row].time for row in range(4)] == [0, 0.2, 0.2, 0]
    assert [found[row].topic for row in range(4)] == [1, 0, 0, 0]


@pytest.mark.parametrize(
    ("days", "core", "standard", "ephemeral"),
    [
        pytest.param(0, 0.02, 0, 0, id="new"),
        pytest.param(-9, 0.02, 0, 0, id="of the future"),
        pytest.param(14, 0.0145, -0.0013, -0.15, id="half of what is ephemeral"),
        pytest.param(30, 0.01, -0.0028, -0.2321, id="half of what is new"),
        pytest.param(365, 0, -0.025, -0.3, id="half of what is standard"),
    ],
)
def test_age_takes_away_what_does_not_last(
    days: int, core: float, standard: float, ephemeral: float
) -> None:
    """What the others lose is told against a `core` fact of the same age."""
    durabilities = ("core", "standard", "ephemeral", "unknown")
    at = NOW - timedelta(days=days)

    found = shares(*(candidate(n, durability=d, at=at) for n, d in enumerate(durabilities)))

    ages = [found[n].age for n in range(4)]
    lost = [age - ages[0] for age in ages[1:]]
    assert ages[0] == pytest.approx(core, abs=6e-5)
    assert lost == pytest.approx([standard, ephemeral, 0], abs=1.1e-4)


async def test_the_configured_weight_of_ratings_counts(memory: Memory, database: Database) -> None:
    async def announce(_: str, change: MemoryChange) -> None:
        assert change.id

    settings = MemorySettings(feedback_weight=0.5)
    weighing = Memory(database, memory.vectors, settings, announce=announce)
    richard = weighing.of(Caller(user="richard"))
    await richard.put_turn(Turn(query="?", answer="Osmium.", at=NOW, query_id="q1"))
    await richard.rate("q1", -0.5)

    (item,) = (await richard.recall(Ask(query="osmium", top_k=5))).items

    assert item.shares.feedback == -0.25


def told(share: str) -> list[float]:
    """Every number of a share's row in the table."""
    (row,) = re.findall(rf"^\| {share} \|(.*)\|$", DOCS.read_text(encoding="utf-8"), re.MULTILINE)
    numbers = re.findall(rf"(?<!\w){MINUS}?\d+(?:\.\d+)?", row)
    return [float(number.replace(MINUS, "-")) for number in numbers]


def test_the_documented_shares_are_the_constants() -> None:
    lost, half_life = ranking.FADING["ephemeral"]
    documented = {
        "meaning": [1],
        "words": [ranking.WORDS],
        "coverage": [ranking.COVERAGE, ranking.LENT],
        "around": [2 * ranking.AROUND, ranking.AROUND],
        "session": [ranking.SESSION],
        "speaker": [ranking.SPEAKER],
        "machine": [ranking.MACHINE],
        "time": [ranking.TIME],
        "topic": [ranking.TOPIC],
        "related": [1.7 * ranking.RELATED, ranking.RELATED],
        "importance": [ranking.IMPORTANCE / 2],
        "age": [-lost, ranking.RECENT, lost, half_life, ranking.FADING["standard"][0]],
        "feedback": [],
        "recalled": [ranking.RECALLED],
    }

    assert documented.keys() == set(Shares.__struct_fields__)
    assert {share: told(share) for share in documented} == documented
    assert ranking.FADING.keys() == {"standard", "ephemeral"}
    assert ranking.FADING["standard"][1] == 365, "a year"
    assert ranking.FULL_SCORE == 2, "half of that sum"
    text = " ".join(DOCS.read_text(encoding="utf-8").split())
    assert "`score` is half of that sum, at most 1." in text
    assert (
        f"From the {ranking.SURE + 1}th place to the {ranking.SPREAD}th a conversation that has "
        f"no place yet gains {ranking.NEW_SESSION}."
    ) in text
