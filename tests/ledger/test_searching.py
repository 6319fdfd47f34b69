"""Searching by words, meaning, keys and relations among permitted records, and choosing."""

import asyncio
from collections.abc import Mapping, Sequence
from datetime import timedelta
from typing import Any

import pytest

from ledger.conftest import every_search
from ledgers import (
    DAY,
    OWNER,
    everything,
    fact,
    find,
    index,
    message,
    no_vector_result,
    record,
    searching,
    vector_result,
)
from local2.errors import StorageError
from local2.ledger.ledger import Ledger
from local2.ledger.records import DERIVED_FROM
from local2.ledger.search import (
    Choice,
    DetailRequest,
    Matches,
    Place,
    Replaced,
    Source,
    VectorResult,
    WordMatches,
)

pytestmark = every_search

OSMIUM = searching("osmium")


async def test_words_find_records_with_any_of_their_endings(ledger: Ledger) -> None:
    await ledger.records.store([record("Two densities."), record("Ann walks.")])

    seen = await find(ledger, searching("density"))

    assert "Two densities." in seen.contents
    positions = seen.found.view.postings("densiti").positions
    assert [seen.records[seen.found.view.rows[n]].content for n in positions] == ["Two densities."]


async def test_a_received_result_is_found_by_the_arguments_that_its_turn_reports(
    ledger: Ledger,
) -> None:
    places = (Place("session", OWNER, "tool_output"),)
    tool: dict[str, Any] = {"kind": "tool_output", "role": "tool", "label": "weigh"}
    received = message("22.59 g", 1, **tool, pending=True)
    await ledger.unreported.store(received)
    asked = searching("osmium", places=places)
    before = (await find(ledger, asked)).found.view
    assert not list(before.postings("osmium").positions)

    reported = message("22.59 g", 2, **tool, turn="t1", metadata={"args": {"metal": "Osmium"}})
    (written,) = await ledger.turns.store([reported])

    assert written.id == received.id
    seen = await find(ledger, asked)
    assert seen.contents == {"22.59 g"}
    assert list(seen.found.view.postings("osmium").positions)


async def test_a_value_that_is_replaced_during_the_search_is_found_or_the_new_one(
    ledger: Ledger,
) -> None:
    """Between two reads of a search, and two statements of a read, others write."""
    await ledger.facts.store(fact("Ann lives in Oslo.", topic="user.city"))
    loop = asyncio.get_running_loop()
    drafts = list[WordMatches]()

    def replace_at_first(worded: WordMatches) -> WordMatches:
        drafts.append(worded)
        if len(drafts) == 1:
            storing = ledger.facts.store(fact("Ann lives in Bergen.", topic="user.city"))
            asyncio.run_coroutine_threadsafe(storing, loop).result(30)
        return worded

    async def ask_nobody(_: int) -> VectorResult:
        return no_vector_result()

    seen = await ledger.searches.find(searching("live"), ask_nobody, replace_at_first, everything)

    assert seen.contents in ({"Ann lives in Oslo."}, {"Ann lives in Bergen."})


async def test_only_requested_kinds_are_found(ledger: Ledger) -> None:
    await ledger.records.store([record("Episode of osmium."), message("Message of osmium.")])

    places = (Place("session", OWNER, "chat_message"),)
    assert (await find(ledger, searching("osmium", places=places))).contents == {
        "Message of osmium."
    }


async def test_a_search_without_permitted_places_finds_nothing(ledger: Ledger) -> None:
    await ledger.records.store([record("Osmium.")])

    assert (await find(ledger, searching("osmium", places=()))).contents == set()
    assert (await find(ledger, searching("osmium", places=(), only_session="s1"))).records == {}


@pytest.mark.parametrize(
    ("fields", "contents"),
    [
        pytest.param({"only_session": "s1"}, {"Osmium here."}, id="one session"),
        pytest.param({"excluded_session": "s1"}, {"Osmium there."}, id="the others"),
        pytest.param({"since": DAY + timedelta(hours=1)}, {"Osmium there."}, id="since"),
        pytest.param({"until": DAY + timedelta(hours=1)}, {"Osmium here."}, id="until"),
        pytest.param({"since": DAY, "until": DAY}, {"Osmium here."}, id="both ends belong to it"),
    ],
)
async def test_a_session_or_a_time_narrows_the_search(
    ledger: Ledger, fields: dict[str, Any], contents: set[str]
) -> None:
    await ledger.records.store(
        [
            message("Osmium here."),
            message("Osmium there.", session_id="s2", event_time=DAY + timedelta(days=1)),
        ]
    )

    assert (await find(ledger, searching("osmium", **fields))).contents == contents


@pytest.mark.parametrize(
    ("days", "fields", "contents"),
    [
        pytest.param(5, {}, {"Osmium.", "Iridium.", "Gold."}, id="before both were replaced"),
        pytest.param(10, {}, {"Iridium.", "Gold."}, id="when the first was"),
        pytest.param(15, {}, {"Iridium.", "Gold."}, id="between"),
        pytest.param(25, {}, {"Gold."}, id="after both were"),
        pytest.param(5, {"until": DAY + timedelta(days=5)}, {"Osmium."}, id="what was there then"),
        pytest.param(5, {"since": DAY + timedelta(days=1)}, {"Iridium.", "Gold."}, id="since"),
    ],
)
async def test_as_of_an_earlier_time_a_fact_replaced_since_is_found(
    ledger: Ledger, days: int, fields: dict[str, Any], contents: set[str]
) -> None:
    for number, content in enumerate(("Osmium.", "Iridium.", "Gold.")):
        at = DAY + timedelta(days=10 * number)
        await ledger.facts.store(fact(content, topic="user.metal", event_time=at))
    metals = ("osmium", "iridium", "gold")

    search = searching(*metals, as_of=DAY + timedelta(days=days), **fields)

    assert (await find(ledger, search)).contents == contents
    assert (await find(ledger, searching(*metals))).contents == {"Gold."}


@pytest.mark.parametrize(
    ("fields", "expected"),
    [
        pytest.param({}, ["Iridium.", "Osmium."], id="all"),
        pytest.param({"since": DAY + timedelta(days=5)}, ["Iridium."], id="since"),
        pytest.param({"until": DAY + timedelta(days=5)}, [], id="the present one is not found"),
        pytest.param({"as_of": DAY + timedelta(days=15)}, ["Osmium."], id="as of"),
    ],
)
async def test_the_values_that_a_fact_replaced_under_its_key_are_told_the_latest_first(
    ledger: Ledger, fields: dict[str, Any], expected: list[str]
) -> None:
    for number, content in enumerate(("Osmium.", "Iridium.", "Gold.")):
        at = DAY + timedelta(days=10 * number)
        for owner in (OWNER, "eve"):
            stored = fact(content, topic="user.metal", event_time=at, owner=owner)
            await ledger.facts.store(stored)

    def choose(found: Matches, _: WordMatches) -> Choice[list[str]]:
        records = (yield DetailRequest(records=found.view.rows)).records
        present = "Iridium." if "as_of" in fields else "Gold."
        rows = [row for row, record in records.items() if record.content == present]
        former = (yield DetailRequest(former=rows)).former
        return [record.content for row in rows for record in former.get(row, ())]

    search = searching("osmium", "iridium", "gold", **fields)

    async def look(_: int) -> VectorResult:
        return no_vector_result()

    assert await ledger.searches.find(search, look, lambda worded: worded, choose) == expected


async def test_a_fact_replaced_since_is_found_only_by_its_owner(
    ledger: Ledger, other: Ledger
) -> None:
    for owner in ("richard", "eve"):
        for content in (f"Osmium of {owner}.", f"Iridium of {owner}."):
            at = DAY + timedelta(days=10 * content.startswith("Iridium"))
            replaced = fact(content, topic="user.metal", event_time=at, owner=owner)
            await ledger.facts.store(replaced)
    search = searching("osmium", as_of=DAY, until=DAY)

    assert (await find(ledger, search)).contents == {"Osmium of richard."}
    assert (await find(other, search)).contents == set()
    assert (await find(ledger, searching("osmium", as_of=DAY, places=()))).contents == set()


async def test_the_question_being_answered_is_not_found(ledger: Ledger) -> None:
    question = message("Where is my osmium?", query_id="q1", pending=True)
    await ledger.unreported.store(question)

    assert (await find(ledger, searching("osmium", current_query_id="q1"))).contents == set()
    assert (await find(ledger, searching("osmium", current_query_id="q2"))).contents == {
        question.content
    }


async def test_a_key_finds_its_fact_and_a_phrase_the_records_that_contain_it(
    ledger: Ledger,
) -> None:
    await ledger.facts.store(fact("Vim.", topic="user.Editor"))
    await ledger.records.store([record("Read foo-bar.py, please."), record("Foo is a bar, py.")])
    search = searching("foo", "bar", topics=("user.editor",), phrases=("foo bar py",))

    seen = await find(ledger, search)

    assert [seen.records[row].content for row in seen.found.topics] == ["Vim."]
    (with_phrase,) = seen.found.phrases
    assert [seen.records[row].content for row in with_phrase] == ["Read foo-bar.py, please."]


async def test_meaning_finds_a_record_without_a_common_word(ledger: Ledger) -> None:
    written = await ledger.records.store([record("Gold."), record("Silver."), record("Late.")])
    await index(ledger, {"Gold.": 0, "Silver.": 90})

    seen = await find(ledger, searching("metal"), vector_result(0, [one.id for one in written[:2]]))

    cosines = seen.cosines()
    assert (cosines["Gold."], cosines["Silver."]) == (1, 0)
    compared = dict(
        zip(seen.found.view.rows, seen.found.has_comparable_vector().tolist(), strict=True)
    )
    assert not any(compared[row] for row, one in seen.records.items() if one.content == "Late.")


async def test_the_owners_nearest_records_are_found_behind_those_of_others(ledger: Ledger) -> None:
    """The index holds all owners' records and answers with the nearest of all."""
    eves = await ledger.records.store([record(f"Eve {n}.", owner="eve") for n in range(60)])
    await ledger.records.store([record("Gold.")])
    await index(ledger, {"Gold.": 0, **{f"Eve {n}.": 0 for n in range(60)}})

    seen = await find(ledger, searching("metal"), vector_result(0, [one.id for one in eves[:50]]))

    assert seen.contents == {"Gold."}


async def test_only_waiting_records_in_the_searched_places_are_reported(ledger: Ledger) -> None:
    await ledger.records.store([record("Gold.")])
    assert await ledger.searches.has_waiting(OSMIUM)
    assert not await ledger.searches.has_waiting(
        searching("x", places=(Place("user", "eve", "fact"),))
    )

    await index(ledger, {"Gold.": 0})

    assert not await ledger.searches.has_waiting(OSMIUM)


async def test_the_chooser_receives_the_reason_for_missing_vectors(ledger: Ledger) -> None:
    await ledger.records.store([record("Osmium.")])

    seen = await find(ledger, OSMIUM, no_vector_result("The worker is gone."))

    assert (seen.found.problem, seen.found.waiting) == ("The worker is gone.", True)
    assert not seen.found.has_comparable_vector().any()


async def test_a_message_is_returned_with_its_neighbours(ledger: Ledger) -> None:
    talk = ["One.", "Two osmium.", "Three."]
    await ledger.conversations.store([message(text) for text in talk])

    seen = await find(ledger, OSMIUM)

    view = seen.found.view
    contents = [seen.records[row].content for row in view.rows] + [None]
    before, after = view.neighbours[0]
    here = contents.index("Two osmium.")
    assert (contents[before[here]], contents[after[here]]) == ("One.", "Three.")


async def test_an_echos_sources_are_the_active_versions_of_what_it_repeats(ledger: Ledger) -> None:
    (echo,) = await ledger.records.store([record("You said osmium.", metadata={"recalled": True})])
    older = await ledger.facts.store(fact("Osmium.", topic="user.metal"))
    await ledger.facts.relate(echo.id, DERIVED_FROM, older.id)
    newer = await ledger.facts.store(fact("Osmium!", topic="user.metal"))
    (echoing,) = await ledger.records.chain(echo.id)
    standing = (await ledger.records.chain(newer.id))[0]

    def sources(found: Matches, _: WordMatches) -> Choice[Mapping[int, Sequence[Source]]]:
        assert echoing.row in found.view.rows
        return (yield DetailRequest(sources=[echoing.row])).sources

    found = await ledger.searches.find(OSMIUM, no_vectors, lambda worded: worded, sources)

    assert dict(found) == {echoing.row: [Source(standing.row, replaces=True)]}


@pytest.mark.parametrize("is_saved", [False, True])
async def test_a_message_is_replaced_by_what_states_the_present_value_of_its_fact(
    ledger: Ledger, *, is_saved: bool
) -> None:
    """By messages, or by the fact itself, if it was saved."""
    talk = [message(text) for text in ("Osmium.", "Iridium.", "Platinum.", "No osmium.")]
    await ledger.conversations.store(talk)
    facts = []
    for said, topic in zip((*talk[:3], talk[0]), (*["user.metal"] * 3, "user.gas"), strict=True):
        stored = await ledger.facts.store(fact(f"{said.content} is best.", topic=topic))
        if said != talk[2] or not is_saved:
            await ledger.facts.relate(stored.id, DERIVED_FROM, said.id)
        facts.append((await ledger.records.chain(stored.id))[0].row)
    rows = [(await ledger.records.chain(said.id))[0].row for said in talk]
    _, _, present, other = facts
    stating = present if is_saved else rows[2]

    def replaced(_: Matches, __: WordMatches) -> Choice[Mapping[int, Replaced]]:
        return (yield DetailRequest(replaced=rows)).replaced

    found = await ledger.searches.find(OSMIUM, no_vectors, lambda worded: worded, replaced)

    assert dict(found) == {
        rows[0]: Replaced({"Osmium. is best."}, [present], [stating], [other]),
        rows[1]: Replaced({"Iridium. is best."}, [present], [stating], []),
    }


async def test_the_chooser_receives_the_draft(ledger: Ledger) -> None:
    await ledger.records.store([record("Osmium."), record("More osmium.")])

    def both(found: Matches, draft: int) -> Choice[tuple[int, int]]:
        yield DetailRequest()
        return draft, found.view.size

    chosen = await ledger.searches.find(OSMIUM, no_vectors, lambda worded: worded.view.size, both)

    assert chosen == (2, 2)


async def test_a_record_retired_before_the_choice_is_not_returned(ledger: Ledger) -> None:
    """A record may be replaced while the question is embedded."""
    await ledger.facts.store(fact("Osmium.", topic="user.metal"))

    async def replace_meanwhile(_: int) -> VectorResult:
        await ledger.facts.store(fact("Iridium.", topic="user.metal"))
        return no_vector_result()

    def records(found: Matches, _: WordMatches) -> Choice[set[str]]:
        details = (yield DetailRequest(records=found.view.rows)).records
        return {one.content for one in details.values()}

    found = await ledger.searches.find(OSMIUM, replace_meanwhile, lambda worded: worded, records)

    assert "Osmium." not in found


async def test_an_error_of_the_chooser_is_raised(ledger: Ledger) -> None:
    await ledger.records.store([record("Osmium.")])

    def fail(found: Matches, _: WordMatches) -> Choice[None]:
        yield DetailRequest(records=found.view.rows)
        raise StorageError("Nothing fits.")

    with pytest.raises(StorageError, match="Nothing fits"):
        await ledger.searches.find(OSMIUM, no_vectors, lambda worded: worded, fail)


async def test_ratings_and_importance_reach_the_chooser(ledger: Ledger) -> None:
    await ledger.records.store([record("Osmium.", importance=0.9, durability="ephemeral")])

    seen = await find(ledger, OSMIUM)

    assert seen.found.view.column["importance"].tolist() == [0.9]
    assert seen.found.view.column["feedback"].tolist() == [0.0]


async def no_vectors(_: int) -> VectorResult:
    return no_vector_result()
