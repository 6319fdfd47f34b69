"""Decisions of consolidation: only stale facts are archived, and only equal ones merged."""

from datetime import timedelta
from typing import Any

import pytest

from ledgers import DAY, OWNER
from local2.ledger.operations.upkeep import ActiveFact, Change
from local2.memory.upkeep import consolidation
from local2.memory.upkeep.consolidation import Limits, Survey, select_changes
from local2.protocol.envelope import new_id

OLD = DAY - timedelta(days=2_000)


def active_fact(content: str = "Ada met Bob.", **columns: Any) -> ActiveFact:
    """Return a fact that was read in a message long ago and never recalled since."""
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


def test_an_extracted_fact_that_faded_is_stale() -> None:
    assert consolidation.is_stale(active_fact(), DAY)


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
def test_a_fact_is_not_stale_if(columns: dict[str, Any]) -> None:
    assert not consolidation.is_stale(active_fact(**columns), DAY)


def test_an_ephemeral_fact_fades_soon() -> None:
    def ephemeral_fact(days: int) -> ActiveFact:
        at = DAY - timedelta(days=days)
        return active_fact(durability="ephemeral", extracted=False, event_time=at)

    assert consolidation.is_stale(ephemeral_fact(40), DAY)
    assert not consolidation.is_stale(ephemeral_fact(20), DAY)


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("Ada likes tea.", "ada likes TEA"),
        ("Ada does like tea", "Ada like tea"),
        ("“The office is in Rome”", "The office is in Rome."),
    ],
)
def test_contents_that_may_be_duplicates_have_the_same_key(one: str, other: str) -> None:
    assert consolidation.merge_key(active_fact(one)) == consolidation.merge_key(active_fact(other))


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
def test_contents_with_different_meanings_have_different_keys(one: str, other: str) -> None:
    assert consolidation.merge_key(active_fact(one)) != consolidation.merge_key(active_fact(other))


@pytest.mark.parametrize(
    "columns",
    [
        pytest.param({"stated_by": "eve"}, id="of another user"),
        pytest.param({"scope": "tenant", "owner": ""}, id="of another scope"),
        pytest.param({"memory_type": "preference"}, id="of another type"),
    ],
)
def test_equal_contents_are_not_duplicates_if_they_are(columns: dict[str, Any]) -> None:
    assert consolidation.merge_key(active_fact()) != consolidation.merge_key(active_fact(**columns))


@pytest.mark.parametrize(
    "columns",
    [
        pytest.param({"memory_type": "event"}, id="happened once more"),
        pytest.param({"durability": "core"}, id="are core"),
        pytest.param({"stated_by": None}, id="are of nobody knows whom"),
        pytest.param({"content": ""}, id="are too long to compare"),
    ],
)
def test_facts_are_never_merged_if_they(columns: dict[str, Any]) -> None:
    assert consolidation.merge_key(active_fact(**columns)) is None


def test_an_identical_task_of_another_session_is_another_task() -> None:
    one, other = (
        consolidation.merge_key(
            active_fact(memory_type="task", scope="session", session_id=session)
        )
        for session in ("s1", "s2")
    )

    assert one != other


def test_the_strongest_duplicate_stays_and_one_with_a_key_is_preferred() -> None:
    weak, strong = active_fact(row=9, source_class="observed"), active_fact(row=1)
    named = active_fact(row=2, topic="user.friend", extracted=False, source_class="asserted")

    assert consolidation.best_first([weak, strong]) == [strong, weak]
    assert consolidation.best_first([weak, strong, named]) == [named, strong, weak]
    observed = active_fact(row=3, topic="user.friend", source_class="observed")
    assert consolidation.best_first([observed, strong]) == [observed]


def contradicting_pair(**columns: Any) -> tuple[ActiveFact, ActiveFact]:
    """Return a pair of facts: Rome, which is newer, and Berlin."""
    newer = {"row": 2, "event_time": DAY, **columns}
    return active_fact("We live in Rome.", **newer), active_fact("We live in Berlin.")


def test_a_newer_value_of_the_same_user_replaces_the_older_one_with_certainty() -> None:
    rome, berlin = contradicting_pair()

    assert consolidation.newer_first(berlin, rome) == (rome, berlin)
    assert consolidation.reason_to_keep(rome, berlin) is None
    assert consolidation.is_certain(rome, berlin)


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
def test_a_fact_is_not_retired_if(columns: dict[str, Any], reason: str) -> None:
    rome, berlin = contradicting_pair(**columns)

    assert reason in str(consolidation.reason_to_keep(rome, berlin))


def test_a_core_fact_is_never_retired() -> None:
    rome, _ = contradicting_pair()

    core = active_fact("We live in Berlin.", durability="core")
    assert consolidation.reason_to_keep(rome, core) == "it is core"


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
def test_a_contradiction_is_certain_if_one_value_differs(
    one: str, other: str, certain: bool
) -> None:
    assert consolidation.is_certain(active_fact(one), active_fact(other)) is certain
    assert consolidation.is_certain(active_fact(other), active_fact(one)) is certain


def test_recalls_raise_importance_in_small_steps_up_to_a_limit() -> None:
    assert consolidation.raised_importance(active_fact(recalls=1)) == 0.52
    assert consolidation.raised_importance(active_fact(recalls=99)) == 0.6
    assert consolidation.raised_importance(active_fact(recalls=99, importance=0.74)) == 0.75
    assert consolidation.raised_importance(active_fact(recalls=9, importance=0.9)) is None
    assert consolidation.raised_importance(active_fact(recalls=9, durability="core")) is None
    assert consolidation.raised_importance(active_fact()) is None


@pytest.mark.parametrize(
    ("facts", "retired", "archived"),
    [(1_000, 50, 50), (40, 2, 2), (20, 2, 1), (19, 2, 0), (1, 2, 0)],
)
def test_limits_protect_small_scopes(facts: int, retired: int, archived: int) -> None:
    assert Limits.for_facts(facts, 0.05, 9_999) == Limits(retired=retired, archived=archived)
    assert Limits.for_facts(facts, 0.0, 9_999) == Limits(retired=0, archived=0)
    assert Limits.for_facts(facts, 0.5, 0) == Limits(retired=0, archived=0)


def test_a_run_stays_within_its_limits_and_changes_each_fact_once() -> None:
    facts = [active_fact(f"Fact {n}.", row=n, recalls=n % 2) for n in range(100)]
    limits = Limits.for_facts(len(facts), 0.05, 9_999)
    survey = Survey(limits, DAY)
    for start in range(0, 100, 10):
        survey.add_page(facts[start : start + 10])
    pairs = [(facts[0], facts[1]), (facts[1], facts[2]), (facts[3], facts[1]), (facts[4], facts[3])]
    replaced = [
        Change(action="merged", fact=older, reason="equal", superseded_by=newer.id)
        for older, newer in pairs
    ]

    changes = select_changes(survey, replaced, limits, DAY)

    retired = [change for change in changes if change.action != "importance"]
    merged = [(one.fact, one.superseded_by) for one in retired if one.action == "merged"]
    assert merged == [(facts[0], facts[1].id), (facts[3], facts[1].id)]
    assert len(merged) < len(retired) <= 5
    assert 0 < len(changes) - len(retired) <= 5
    assert len({change.fact.id for change in changes}) == len(changes)
    assert not {change.superseded_by for change in retired} & {one.fact.id for one in retired}
