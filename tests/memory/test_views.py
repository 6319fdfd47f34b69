"""What a caller is shown of a record."""

from datetime import UTC, datetime

import pytest

from local2.ledger.records import EXTRACTED_FROM, Record
from local2.memory.scopes import view
from local2.protocol.envelope import Caller
from local2.protocol.memory_tools import LaterStatement, TopMemory, Version

FACT = Record(
    id="f1",
    kind="fact",
    content="Ada plays the cello.",
    event_time=datetime(2026, 5, 4, tzinfo=UTC),
    scope="tenant",
    stated_by="ada",
    metadata={EXTRACTED_FROM: ["m1"]},
    superseded_by="",
)


@pytest.mark.parametrize(("user", "by"), [("ada", "self"), ("eve", "other")])
def test_a_caller_learns_only_whether_somebody_else_stated_a_fact(user: str, by: str) -> None:
    shown = view(FACT, Caller(tenant="default", user=user), TopMemory)

    assert (shown.by, shown.content, shown.scope) == (by, FACT.content, "tenant")


def test_a_retired_version_that_nothing_replaced_names_no_successor() -> None:
    shown = view(FACT, Caller(tenant="default"), Version)

    assert (shown.superseded_by, shown.sources, shown.source_class) == (None, ["m1"], "asserted")


def test_a_given_field_takes_the_place_of_the_records() -> None:
    shown = view(FACT, Caller(tenant="default"), LaterStatement, content="Ada …")

    assert shown == LaterStatement(
        id="f1", content="Ada …", event_time=FACT.event_time, source_class="asserted"
    )
