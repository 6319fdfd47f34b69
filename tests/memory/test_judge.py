"""A model judges which older facts a new one replaces, by unambiguous verdicts only."""

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from local2.errors import ModelRefusedError
from local2.ledger.records import Record
from local2.llm.models import StructuredModel
from local2.memory.upkeep.supersession import MAX_FACT, Judge
from stand_ins.ollama_server import OllamaStandIn

NOON = datetime(2026, 5, 1, 12, tzinfo=UTC)


def fact(content: str, *, days: int = 0) -> Record:
    stated_at = NOON + timedelta(days=days)
    return Record(id=content[:20], kind="fact", content=content, event_time=stated_at)


def found(**verdicts: str) -> dict[str, Any]:
    """Return the findings by fact number: `_2="replaces"` is the verdict on fact 2."""
    return {"verdicts": [{"number": int(n.strip("_")), "verdict": v} for n, v in verdicts.items()]}


MOVED = fact("I live in Rome now.", days=9)
OLDER = [fact("I live in Berlin."), fact("I love Italy.", days=1), fact("My dog is Rex.", days=2)]


@pytest.fixture
def judge(model: StructuredModel) -> Judge:
    return Judge(model, within=10)


async def test_each_older_fact_gets_its_verdict_in_the_given_order(
    ollama: OllamaStandIn, judge: Judge
) -> None:
    ollama.script_json(found(_3="unrelated", _1="replaces", _2="supports"))

    assert await judge.verdicts(MOVED, OLDER) == ["replaces", "supports", "unrelated"]


async def test_the_model_sees_every_fact_with_its_number_and_time(
    ollama: OllamaStandIn, judge: Judge
) -> None:
    ollama.script_json(found())

    await judge.verdicts(MOVED, OLDER[:2])

    assert ollama.materials() == [
        {
            "new": {"said": "2026-05-10T12:00:00Z", "text": "I live in Rome now."},
            "older": [
                {"said": "2026-05-01T12:00:00Z", "text": "I live in Berlin.", "number": 1},
                {"said": "2026-05-02T12:00:00Z", "text": "I love Italy.", "number": 2},
            ],
        }
    ]


@pytest.mark.parametrize(
    "findings",
    [
        pytest.param([], id="nothing said"),
        pytest.param([(2, "replaces")], id="of another fact"),
        pytest.param([(0, "replaces"), (-1, "replaces"), (9, "replaces")], id="unknown numbers"),
        pytest.param([(1, "replaces"), (1, "supports")], id="two opinions"),
        pytest.param([(1, "supports"), (1, "replaces")], id="two opinions, the other last"),
    ],
)
async def test_an_ambiguous_verdict_leaves_the_older_fact_active(
    ollama: OllamaStandIn, judge: Judge, findings: list[tuple[int, str]]
) -> None:
    ollama.script_json({"verdicts": [{"number": n, "verdict": v} for n, v in findings]})

    assert (await judge.verdicts(MOVED, OLDER))[0] == "unrelated"


async def test_a_repeated_verdict_is_unambiguous(ollama: OllamaStandIn, judge: Judge) -> None:
    ollama.script_json({"verdicts": 2 * [{"number": 1, "verdict": "replaces"}]})

    assert await judge.verdicts(MOVED, OLDER[:1]) == ["replaces"]


async def test_a_fact_too_long_to_show_is_never_replaced(
    ollama: OllamaStandIn, judge: Judge
) -> None:
    long = fact("I live in Bonn. " * MAX_FACT)
    ollama.script_json(found(_1="replaces", _2="replaces"))

    verdicts = await judge.verdicts(MOVED, [long, OLDER[0]])

    assert verdicts == ["unrelated", "replaces"]
    assert [shown["number"] for shown in ollama.materials()[0]["older"]] == [2]


async def test_without_facts_to_compare_the_model_is_not_called(
    ollama: OllamaStandIn, judge: Judge
) -> None:
    assert await judge.verdicts(MOVED, []) == []
    assert await judge.verdicts(fact("Long. " * MAX_FACT, days=9), OLDER) == 3 * ["unrelated"]

    assert ollama.materials() == []


async def test_an_unknown_verdict_is_not_an_answer(ollama: OllamaStandIn, judge: Judge) -> None:
    ollama.script_json(found(_1="contradicts"), found(_1="contradicts"))

    with pytest.raises(ModelRefusedError):
        await judge.verdicts(MOVED, OLDER)
