"""Erasing deletes an owner's records and what derives from them, leaves others', and is final."""

from datetime import datetime, timedelta
from typing import Any

import msgspec
import pytest

from ledger.conftest import OpenLedger
from ledgers import DAY, OWNER, erase, fact, find, message, record, searching, to_index
from local2.ledger.erasing import Anonymised, ErasureOptions, Selection
from local2.ledger.ledger import Ledger
from local2.ledger.operations import erasures
from local2.ledger.operations.turns import Rating
from local2.ledger.records import DERIVED_FROM, EXTRACTED_FROM, NewRecord, Task
from local2.ledger.search import Place
from local2.protocol.envelope import new_id, utc_now

SESSION = Selection(owner=OWNER, session_id="s1")
LONG = "The key to the shed hangs behind the clock."


async def remaining(ledger: Ledger, *records: NewRecord) -> list[str]:
    """Return the contents of the records that still exist in some version."""
    return [one.content for one in records if await ledger.records.chain(one.id)]


async def extracted(ledger: Ledger, content: str, *sources: NewRecord) -> NewRecord:
    ids = [one.id for one in sources]
    made = fact(content, session_id="s2", source_class="stated", metadata={EXTRACTED_FROM: ids})
    await ledger.facts.store(made)
    for id_ in ids:
        await ledger.facts.relate(made.id, DERIVED_FROM, id_)
    return made


async def test_an_erased_message_is_not_recognised_by_its_senders_id(ledger: Ledger) -> None:
    sent = message(LONG, alias="its sender's")
    await ledger.conversations.store([sent])
    erased = await erase(ledger, SESSION, allow_again=True)
    assert (await ledger.erasures.traces(erased)).ids == 0

    again = message("Another text.", alias="its sender's")
    (written,) = await ledger.conversations.store([again])

    assert written.was_new
    assert not written.replaced


def output(*contents: str, owner: str = OWNER) -> NewRecord:
    """Return a tool's output with parts of it."""
    tool: dict[str, Any] = {"owner": owner, "role": "tool", "label": "read"}
    parts = tuple(message(content, kind="output_part", **tool) for content in contents)
    return message(LONG, kind="tool_output", parts=parts, **tool)


PARTS = searching("kiln", places=(Place("session", OWNER, "output_part"),))


@pytest.mark.parametrize("chosen", ["output", "part"])
async def test_an_output_is_erased_with_its_parts(ledger: Ledger, chosen: str) -> None:
    whole = output("The kiln is hot.", "The kiln is cold.")
    other = output("The kiln is lost.", owner="eve")
    for _ in range(2):
        await ledger.unreported.store(whole)
    await ledger.unreported.store(other)
    found = await find(ledger, PARTS)
    assert found.contents == {"The kiln is hot.", "The kiln is cold."}
    part = next(iter(found.records.values())).id

    id_ = {"output": whole.id, "part": part}[chosen]
    erased = await erase(ledger, Selection(owner=OWNER, id=id_))

    assert len(erased.rows) == 3
    assert not (await find(ledger, PARTS)).contents
    traces = await ledger.erasures.traces(erased)
    assert (traces.ids, traces.references, traces.vectors, traces.texts) == (0, 0, 0, 0)
    assert await remaining(ledger, whole, other) == [other.content]


async def test_another_users_answer_derived_from_an_erased_fact_stays(ledger: Ledger) -> None:
    shared = fact("The deadline is in May.", scope="tenant", owner="", stated_by=OWNER)
    await ledger.facts.store(shared)
    answer = record("Q: When? A: In May.", owner="eve", session_id="s9")
    await ledger.records.store([answer])
    await ledger.facts.relate(answer.id, DERIVED_FROM, shared.id)

    await erase(ledger, Selection(owner=OWNER))

    assert await remaining(ledger, shared, answer) == [answer.content]


async def test_all_versions_of_a_topic_are_erased_except_those_that_others_stated(
    ledger: Ledger,
) -> None:
    place = {"scope": "tenant", "owner": "", "topic": "project.deadline"}
    eves = fact("In May.", stated_by="eve", **place)
    mine = [fact(f"In {month}.", stated_by=OWNER, **place) for month in ("June", "July")]
    for each in (eves, *mine):
        await ledger.facts.store(each)

    assert await ledger.facts.topic("tenant", "", "project.deadline") is not None

    await erase(ledger, Selection(owner=OWNER, topic="Project.Deadline"))

    assert await remaining(ledger, eves, *mine) == ["In May."]
    assert await ledger.facts.topic("tenant", "", "project.deadline") is None
    (left,) = await ledger.facts.history("tenant", "", "project.deadline")
    assert left.superseded_by == ""


async def test_a_turn_is_erased_as_a_whole(ledger: Ledger) -> None:
    turn_fields: dict[str, Any] = {"turn": "t1", "query_id": "q1"}
    turn = [
        record("Q: Where? A: Here.", id="e1", **turn_fields),
        message("Where?", id="t1", **turn_fields),
        message("Here.", id="a1", role="assistant", **turn_fields),
    ]
    await ledger.turns.store(turn)
    for comment in ("Good.", "Bad."):
        rating: dict[str, Any] = {"query_id": "q1", "session_id": None, "score": 1.0}
        await ledger.turns.rate(Rating(owner=OWNER, comment=comment, event_time=DAY, **rating))

    erased = await erase(ledger, Selection(owner=OWNER, id="a1"))

    assert len(erased.rows) == 3
    assert await remaining(ledger, *turn) == []
    assert [one.was_new for one in await ledger.turns.store(turn)] == [False] * 3


async def test_an_erased_message_is_not_stored_again(ledger: Ledger) -> None:
    sent = message(LONG)
    await ledger.conversations.store([sent])
    await erase(ledger, SESSION)

    in_other_session = message(LONG, session_id="s7")
    (again,) = await ledger.conversations.store([sent])
    (moved,) = await ledger.conversations.store([in_other_session])
    (eves,) = await ledger.conversations.store([message(LONG, owner="eve")])

    assert (again.erased, moved.erased, eves.was_new) == (True, True, True)


async def test_messages_around_an_erased_one_are_stored_in_their_order(ledger: Ledger) -> None:
    sent = message(LONG)
    await ledger.conversations.store([sent])
    await erase(ledger, SESSION)
    before, after = message("Before."), message("Behind.")
    result = record("12 degrees", kind="tool_output", label="weather", role="tool")

    written = await ledger.conversations.store([before, sent, result, after])

    assert [(one.was_new, one.erased) for one in written] == [
        (True, False),
        (False, True),
        (True, False),
        (True, False),
    ]
    found = [(await ledger.records.chain(one.id))[0] for one in (before, result, after)]
    assert [one.content for one in sorted(found, key=lambda one: one.row)] == [
        "Before.",
        "12 degrees",
        "Behind.",
    ]


async def test_short_and_live_messages_are_recognised_only_by_their_ids(ledger: Ledger) -> None:
    await ledger.conversations.store([message("yes"), message(LONG)])
    await erase(ledger, SESSION)

    (short,) = await ledger.conversations.store([message("yes", session_id="s7")])
    (live,) = await ledger.turns.store([message(LONG, id="t7", turn="t7", session_id="s7")])

    assert (short.was_new, live.was_new) == (True, True)


@pytest.mark.parametrize(
    ("selection", "in_other_session"),
    [(SESSION, True), (Selection(owner=OWNER), False)],
    ids=["a session", "everything"],
)
async def test_a_turn_said_before_an_erasure_and_received_after_it_is_not_stored(
    ledger: Ledger, selection: Selection, in_other_session: bool
) -> None:
    await erase(ledger, selection)

    async def is_stored(minutes: int, **columns: Any) -> bool:
        said = {"event_time": DAY + timedelta(minutes=minutes), "turn": f"t{minutes}", **columns}
        (written,) = await ledger.turns.store([message(LONG, **{"id": new_id(), **said})])
        return written.was_new

    assert [await is_stored(-1), await is_stored(0), await is_stored(1)] == [False, False, True]
    assert await is_stored(-1, session_id="s2") == in_other_session
    assert await is_stored(-1, owner="eve")
    heard = message(LONG, id="heard", pending=True, event_time=DAY - timedelta(minutes=1))
    assert (await ledger.unreported.store(heard)).erased
    # Whoever sends a conversation of before means to.
    (sent,) = await ledger.conversations.store([message(LONG, event_time=DAY - timedelta(days=1))])
    assert sent.was_new


async def test_a_rating_given_before_an_erasure_and_received_after_it_is_not_stored(
    ledger: Ledger,
) -> None:
    await erase(ledger, SESSION)

    for minutes, query_id in ((-1, "before"), (1, "after")):
        at = DAY + timedelta(minutes=minutes)
        rating: dict[str, Any] = {"query_id": query_id, "session_id": "s1", "score": 1.0}
        await ledger.turns.rate(Rating(owner=OWNER, comment="Good.", event_time=at, **rating))

    assert (await ledger.erasures.select(SESSION)).counts == {"ratings": 1}


async def test_an_erased_fact_is_not_extracted_again_but_may_be_stated_again(
    ledger: Ledger,
) -> None:
    sent = message("I like tea.")
    await ledger.records.store([sent])
    await extracted(ledger, "Likes tea.", sent)
    await erase(ledger, SESSION)

    again = await ledger.facts.store(fact("Likes tea.", source_class="stated"))
    stated = await ledger.facts.store(fact("Likes tea.", source_class="asserted"))

    assert (again.erased, stated.was_new) == (True, True)


async def test_tombstones_outlive_a_restart_and_can_be_lifted(open_ledger: OpenLedger) -> None:
    sent = message(LONG)
    async with open_ledger() as of_tenant:
        await of_tenant("default").conversations.store([sent])
        await erase(of_tenant("default"), SESSION)
    async with open_ledger() as of_tenant:
        ledger = of_tenant("default")
        (refused,) = await ledger.conversations.store([sent])
        await erase(ledger, SESSION, allow_again=True)
        (allowed,) = await ledger.conversations.store([sent])

    assert (refused.erased, allowed.was_new) == (True, True)


async def test_tombstones_of_single_records_can_be_lifted(ledger: Ledger) -> None:
    one, other = message(LONG), message(f"{LONG} Really.")
    await ledger.conversations.store([one, other])
    await erase(ledger, SESSION)

    await ledger.erasures.lift([one])

    written = await ledger.conversations.store([one, other])
    assert [each.was_new for each in written] == [True, False]


async def test_an_erasure_interrupted_by_a_kill_can_be_completed(
    ledger: Ledger, monkeypatch: pytest.MonkeyPatch
) -> None:
    sent = message("I live in Bern.")
    await ledger.records.store([sent])
    made = await extracted(ledger, "Lives in Bern.", sent)
    monkeypatch.setattr(erasures, "ROWS_PER_TRANSACTION", 1)
    selected = await ledger.erasures.select(SESSION)
    async for _ in ledger.erasures.erase(SESSION, selected.rows, ErasureOptions(at=DAY)):
        break  # the process is killed here

    await erase(ledger, SESSION)

    assert await remaining(ledger, sent, made) == []


async def test_a_vector_of_a_record_erased_meanwhile_is_removed_from_the_index(
    ledger: Ledger,
) -> None:
    sent = message("Being embedded.")
    await ledger.records.store([sent])
    waiting = await to_index(ledger)
    erased = await erase(ledger, SESSION)
    await ledger.backlog.finish(
        [Task(kind="unindex", row=one.row, id=one.id) for one in erased.unindexed]
    )

    await ledger.index.store_vectors(waiting, [bytes(8)], "plane")

    assert (await ledger.erasures.traces(erased)).vectors == 0
    (task,) = await ledger.backlog.claim({"unindex": 9}, now=utc_now())
    assert task.id == sent.id


async def test_scrubbing_the_files_keeps_the_remaining_records(ledger: Ledger) -> None:
    await ledger.records.store([message("One."), message("Two.", session_id="s2")])
    await erase(ledger, SESSION)

    await ledger.erasures.scrub()

    assert (await find(ledger, searching("two"))).contents == {"Two."}
    assert await ledger.problems() == []


async def test_records_retired_before_a_date_are_anonymised(ledger: Ledger) -> None:
    old, new = fact("Tea, once.", topic="user.drink"), fact("Tea, now.", topic="user.drink")
    await ledger.facts.store(old)
    await ledger.facts.store(new)
    early, late = utc_now() - timedelta(days=1), utc_now() + timedelta(days=1)

    async def anonymise(before: datetime) -> list[Anonymised]:
        return await ledger.erasures.anonymise(before=before, limit=9, agent="retention", at=late)

    assert await ledger.erasures.count_to_anonymise(late) == 1
    assert await anonymise(early) == []
    (done,) = await anonymise(late)
    assert await anonymise(late) == []

    newest, oldest = await ledger.records.chain(new.id)
    assert (done.id, oldest.id, oldest.superseded_by) == (old.id, old.id, new.id)
    assert (oldest.content, oldest.owner, oldest.topic) == ("[REDACTED]", "", None)
    assert (oldest.retired_why, oldest.stated_by, oldest.agent) == ("anonymised", None, None)
    assert newest.content == "Tea, now."
    assert await ledger.problems() == []


async def test_a_message_that_may_be_stored_again_can_be_edited_as_before(ledger: Ledger) -> None:
    first = message("Lead.", id="m1", alias="m1*")
    edited = msgspec.structs.replace(first, content="Gold.")
    for told in (first, edited):
        await ledger.conversations.store([told])
    await erase(ledger, Selection(owner=OWNER, session_id="s1"))

    await ledger.erasures.lift([first])
    for told in (first, edited):
        (written,) = await ledger.conversations.store([told])
        assert written.was_new

    assert (await find(ledger, searching("lead", "gold"))).contents == {"Gold."}
