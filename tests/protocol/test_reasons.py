"""Why a memory is where it is, is said in the same words by every way in."""

from typing import Any

import pytest

from local2.protocol.explaining import ExplainedMemory


@pytest.mark.parametrize(
    ("fields", "said"),
    [
        ({"place": 1, "rank": 1}, ""),
        (
            {"place": 1, "rank": 3, "reranked": 0.5},
            "It ranks as number 3. A reranker gave it 0.50.",
        ),
        (
            {"rank": 7, "stage": "follow_names"},
            "It ranks as number 7. The rule: follow names.",
        ),
        ({"conditions": ("current_turn", "until")}, "Ruled out by: current turn, until."),
        ({"retired_why": "edited", "superseded_by": "b"}, "It was edited. Replaced by b."),
        ({"retired_why": "withdrawn", "superseded_by": ""}, "It was withdrawn."),
    ],
)
def test_the_reasons_of_an_explanation_are_sentences(fields: dict[str, Any], said: str) -> None:
    memory = ExplainedMemory(id="a", outcome="returned", why="Because.", **fields)

    assert memory.reasons() == f"Because. {said}".strip()
