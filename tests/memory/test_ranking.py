"""The order of hits: score, feedback, and what was itself answered from memory."""

from typing import Any

from local.memory.ranking import Hit, ranked


def hit(id_: str, nearness: float, **metadata: Any) -> Hit:
    return Hit(id=id_, content=f"Text of {id_}.", score=nearness, metadata=metadata)


def order(*hits: Hit, top_k: int = 5) -> list[str]:
    return [found.id for found in ranked(hits, feedback_weight=0.1, top_k=top_k)]


def test_the_nearest_hit_comes_first() -> None:
    assert order(hit("far", 0.4), hit("near", 0.8)) == ["near", "far"]


def test_feedback_decides_among_similar_hits_only() -> None:
    rated = [hit("good", 0.55, score=1.0), hit("plain", 0.6), hit("nearest", 0.9, score=-1.0)]
    assert order(*rated) == ["nearest", "good", "plain"]


def test_a_question_asked_before_comes_after_what_answered_it() -> None:
    asked = hit("asked", 0.7, recalled=True)
    assert order(asked, hit("told", 0.5)) == ["told", "asked"]


def test_the_same_question_asked_often_takes_one_place() -> None:
    often = [
        Hit(id=str(n), content="Q: The same? A: (recalled)", score=0.9, metadata={"recalled": True})
        for n in range(5)
    ]
    assert order(*often, hit("told", 0.3)) == ["0", "told"]


def test_the_same_text_told_in_two_turns_keeps_both() -> None:
    twice = [Hit(id=n, content="The same.", score=0.5, metadata={}) for n in ("a", "b")]
    assert order(*twice) == ["a", "b"]


def test_a_record_found_twice_is_listed_once_with_its_better_score() -> None:
    found = ranked([hit("a", 0.3), hit("a", 0.6)], feedback_weight=0.1, top_k=5)
    assert [(h.id, h.score) for h in found] == [("a", 0.6)]
