"""What consolidation decides: only what is stale beyond doubt is archived, only the same merged."""

from datetime import timedelta
from typing import Any

import pytest

from ledgers import DAY, OWNER
from local.ledger.upkeep import ActiveFact
from local.memory.upkeep import decisions
from local.memory.upkeep.decisions import Limits, Survey, changes_of
from local.protocol.envelope import new_id

OLD = DAY - timedelta(days=2_000)


def known(content: str = "Ada met Bob.", **columns: Any) -> ActiveFact:
    """A fact read in a message long ago, which nobody has asked for since."""
    usual: dict[str, Any] = {
        "row": 1,
        "id": new_id(),
        "content": content,
        "topic": None,
        "memory_type": "fact",
        "durability": "standard",
        "importance": 0.5,
        "source_class": "stated",
        "scope": "user",
        "owner": OWNER,
        "stated_by": OWNER,
        "agent": "shell",
        "session_id": None,
        "event_time": OLD,
        "extracted": True,
        "recalls": 0,
        "recalled_at": None,
    }
    return ActiveFact(**{**usual, **columns})


def test_what_was_read_somewhere_and_faded_is_stale() -> None:
    assert decisions.is_stale(known(), DAY)


@pytest.mark.parametrize(
    "columns",
    [
        pytest.param({"durability": "core"}, id="it is core"),
        pytest.param({"extracted": False}, id="an agent stored it"),
        pytest.param({"extracted": False, "topic": "user.city"}, id="it has a key"),
        pytest.param(
            {"extracted": False, "topic": "user.mood", "durability": "ephemeral"},
            id="it has a key, however short-lived",
        ),
        pytest.param({"memory_type": "instruction"}, id="an instruction"),
        pytest.param({"memory_type": "preference"}, id="a preference"),
        pytest.param({"importance": 0.6}, id="it matters"),
        pytest.param({"event_time": DAY - timedelta(days=100)}, id="it is not old enough"),
        pytest.param({"recalled_at": DAY - timedelta(days=100)}, id="it was recalled"),
    ],
)
def test_it_is_not_stale_if(columns: dict[str, Any]) -> None:
    assert not decisions.is_stale(known(**columns), DAY)


def test_what_was_meant_to_be_short_lived_fades_soon() -> None:
    def stated(days: int) -> ActiveFact:
        at = DAY - timedelta(days=days)
        return known(durability="ephemeral", extracted=False, event_time=at)

    assert decisions.is_stale(stated(40), DAY)
    assert not decisions.is_stale(stated(20), DAY)


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("Ada likes tea.", "ada likes TEA"),
        ("Ada does like tea", "Ada like tea"),
        ("“The office is in Rome”", "The office is in Rome."),
    ],
)
def test_they_may_say_the_same(one: str, other: str) -> None:
    assert decisions.merge_key(known(one)) == decisions.merge_key(known(other))


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("Ada likes C++.", "Ada likes C#."),
        ("It is 5 degrees.", "It is -5 degrees."),
        ("It takes 3.5 hours.", "It takes 35 hours."),
        ("Ada does like tea.", "Ada does not like tea."),
        ("Ada manages Bob.", "Bob manages Ada."),
        ("The train leaves for Rome.", "The train leaves from Rome."),
        ("We ship on Monday.", "We ship on Monday?"),
    ],
)
def test_they_say_something_else(one: str, other: str) -> None:
    assert decisions.merge_key(known(one)) != decisions.merge_key(known(other))


@pytest.mark.parametrize(
    "columns",
    [
        pytest.param({"stated_by": "eve"}, id="of another user"),
        pytest.param({"scope": "tenant", "owner": ""}, id="of another scope"),
        pytest.param({"memory_type": "preference"}, id="of another type"),
    ],
)
def test_the_same_words_are_not_the_same_if_they_are(columns: dict[str, Any]) -> None:
    assert decisions.merge_key(known()) != decisions.merge_key(known(**columns))


@pytest.mark.parametrize(
    "columns",
    [
        pytest.param({"memory_type": "event"}, id="happened once more"),
        pytest.param({"durability": "core"}, id="are core"),
        pytest.param({"stated_by": None}, id="are of nobody knows whom"),
        pytest.param({"content": ""}, id="are too long to compare"),
    ],
)
def test_they_are_never_merged_if_they(columns: dict[str, Any]) -> None:
    assert decisions.merge_key(known(**columns)) is None


def test_the_same_task_of_another_session_is_another_task() -> None:
    one, other = (
        decisions.merge_key(known(memory_type="task", scope="session", session_id=session))
        for session in ("s1", "s2")
    )

    assert one != other


def test_of_duplicates_the_strongest_stays_and_a_key_is_kept() -> None:
    weak, strong = known(row=9, source_class="observed"), known(row=1)
    named = known(row=2, topic="user.friend", extracted=False, source_class="asserted")

    assert decisions.best_first([weak, strong]) == [strong, weak]
    assert decisions.best_first([weak, strong, named]) == [named, strong, weak]
    observed = known(row=3, topic="user.friend", source_class="observed")
    assert decisions.best_first([observed, strong]) == [observed]


def contradicting(**columns: Any) -> tuple[ActiveFact, ActiveFact]:
    """Rome, which is newer, and Berlin."""
    newer = {"row": 2, "event_time": DAY, **columns}
    return known("We live in Rome.", **newer), known("We live in Berlin.")


def test_a_newer_value_of_the_same_user_replaces_the_older_one() -> None:
    rome, berlin = contradicting()

    assert decisions.newer_first(berlin, rome) == (rome, berlin)
    assert decisions.reason_to_keep(rome, berlin) is None
    assert decisions.is_certain(rome, berlin)


@pytest.mark.parametrize(
    ("columns", "reason"),
    [
        ({"stated_by": "eve"}, "the same user"),
        ({"stated_by": None}, "the same user"),
        ({"source_class": "document"}, "a weaker source"),
        ({"source_class": "answered"}, "a weaker source"),
        ({"scope": "tenant", "owner": ""}, "different scopes"),
        ({"event_time": OLD}, "neither is clearly the newer one"),
        ({"row": 0}, "neither is clearly the newer one"),
        ({"memory_type": "event"}, "what happened"),
    ],
)
def test_nothing_is_retired_by(columns: dict[str, Any], reason: str) -> None:
    rome, berlin = contradicting(**columns)

    assert reason in str(decisions.reason_to_keep(rome, berlin))


def test_what_is_core_is_never_retired() -> None:
    rome, _ = contradicting()

    core = known("We live in Berlin.", durability="core")
    assert decisions.reason_to_keep(rome, core) == "it is core"


@pytest.mark.parametrize(
    ("one", "other", "certain"),
    [
        ("The deadline is 3 May.", "The deadline is 5 May.", True),
        ("We live in New York.", "We live in Rome.", True),
        ("Rome is nice.", "Berlin is nice.", False),
        ("We live in Rome.", "We live in Rome with a cat.", False),
        ("Our home is Rome these days.", "We live in Berlin.", False),
        ("We live in Rome.", "We live in Rome.", False),
    ],
)
def test_a_contradiction_is_certain_where_one_value_differs(
    one: str, other: str, certain: bool
) -> None:
    assert decisions.is_certain(known(one), known(other)) is certain
    assert decisions.is_certain(known(other), known(one)) is certain


def test_being_recalled_raises_an_importance_in_small_steps_and_not_beyond_a_limit() -> None:
    assert decisions.raised_importance(known(recalls=1)) == 0.52
    assert decisions.raised_importance(known(recalls=99)) == 0.6
    assert decisions.raised_importance(known(recalls=99, importance=0.74)) == 0.75
    assert decisions.raised_importance(known(recalls=9, importance=0.9)) is None
    assert decisions.raised_importance(known(recalls=9, durability="core")) is None
    assert decisions.raised_importance(known()) is None


@pytest.mark.parametrize(
    ("facts", "retired", "archived"), [(1_000, 50, 50), (20, 1, 1), (19, 1, 0), (1, 1, 0)]
)
def test_limits_leave_small_scopes_what_they_have(facts: int, retired: int, archived: int) -> None:
    assert Limits.of(facts, 0.05, 9_999) == Limits(retired=retired, archived=archived)
    assert Limits.of(facts, 0.0, 9_999) == Limits(retired=0, archived=0)
    assert Limits.of(facts, 0.5, 0) == Limits(retired=0, archived=0)


def test_a_run_stays_within_its_limits_and_changes_each_fact_once() -> None:
    facts = [known(f"Fact {n}.", row=n, recalls=n % 2) for n in range(100)]
    limits = Limits.of(len(facts), 0.05, 9_999)
    survey = Survey(limits, DAY)
    for start in range(0, 100, 10):
        survey.add(facts[start : start + 10])
    pairs = [(facts[0], facts[1]), (facts[1], facts[2]), (facts[3], facts[1]), (facts[4], facts[3])]
    replaced = [decisions.merge_change(older, newer) for older, newer in pairs]

    changes = changes_of(survey, replaced, limits, DAY)

    retired = [change for change in changes if change.action != "importance"]
    merged = [(one.fact, one.superseded_by) for one in retired if one.action == "merged"]
    assert merged == [(facts[0], facts[1].id), (facts[3], facts[1].id)]
    assert len(merged) < len(retired) <= 5
    assert 0 < len(changes) - len(retired) <= 5
    assert len({change.fact.id for change in changes}) == len(changes)
    assert not {change.superseded_by for change in retired} & {one.fact.id for one in retired}
