"""LangGraph's store on local2 answers like InMemoryStore, call by call; limits, filters, users.

LangGraph ships no tests of stores. These are the cases of its repository's suites, and random calls
compared with InMemoryStore.
"""

import asyncio
from collections.abc import Sequence
from typing import Any

import pytest
from hypothesis import Phase, given, settings
from hypothesis import strategies as st
from langgraph.store.base import (
    GetOp,
    InvalidNamespaceError,
    Item,
    ListNamespacesOp,
    MatchCondition,
    Op,
    PutOp,
    SearchOp,
)
from langgraph.store.memory import InMemoryStore

import local2
from calling import caller_named
from local2.errors import BadRequestError, InvalidArgumentsError, TooLargeError
from local2.integrations.langgraph import LocalStore
from local2.memory.service import MemoryService
from local2.memory.tenant import Memory
from local2.protocol.envelope import new_id
from local2.protocol.items import ITEM_BYTES
from waiting import eventually

LABELS = st.sampled_from(
    ["a", "b", "ab", 'a"', "a,b", "%", "_", "é", "*", "'; DROP TABLE item; --"]
)
NAMESPACES = st.lists(LABELS.filter(lambda label: label != "*"), min_size=1, max_size=3).map(tuple)
PATHS = st.lists(LABELS, min_size=1, max_size=2).map(tuple)
KEYS = st.sampled_from(["k", "K", "k'", "k\\", "k%"])
SCALARS = st.none() | st.booleans() | st.integers(-3, 3) | st.sampled_from(["x", "y", "1"])
NUMBERS = st.integers(-3, 3) | st.floats(-3, 3, allow_nan=False)
VALUES = st.fixed_dictionaries(
    {"n": NUMBERS, "of": st.dictionaries(st.sampled_from("pq"), SCALARS, max_size=2)},
    optional={"s": SCALARS, "many": st.lists(SCALARS, max_size=2)},
)
CONDITIONS = (
    SCALARS
    | st.tuples(st.sampled_from(["$eq", "$ne"]), SCALARS).map(lambda pair: dict([pair]))
    | st.dictionaries(st.sampled_from("pq"), SCALARS, max_size=2)
)
FILTERS = st.fixed_dictionaries(
    {},
    optional={
        "n": st.dictionaries(st.sampled_from(["$gt", "$gte", "$lt", "$lte"]), NUMBERS, min_size=1),
        "s": CONDITIONS,
        "of": CONDITIONS,
        "many": st.lists(SCALARS, max_size=2),
    },
)
MATCHES = st.one_of(
    PATHS.map(lambda path: MatchCondition("prefix", path)),
    PATHS.map(lambda path: MatchCondition("suffix", path)),
)
PUTS = st.tuples(NAMESPACES, KEYS, VALUES).map(lambda put: PutOp(*put, index=False))
OPERATIONS = st.one_of(
    PUTS,
    PUTS,
    st.tuples(NAMESPACES, KEYS, st.none()).map(lambda put: PutOp(*put)),
    st.tuples(NAMESPACES, KEYS).map(lambda get: GetOp(*get)),
    st.tuples(st.just(()) | NAMESPACES, FILTERS, st.just(1_000)).map(lambda ask: SearchOp(*ask)),
    st.tuples(
        st.lists(MATCHES, max_size=2).map(tuple),
        st.none() | st.integers(1, 3),
        st.integers(0, 5),
        st.integers(0, 3),
    ).map(lambda ask: ListNamespacesOp(*ask)),
)
BATCHES = st.lists(st.lists(OPERATIONS, min_size=1, max_size=6), min_size=1, max_size=12)


def plain(answer: Any) -> Any:
    """Remove what depends on the clock, and on an order that is not guaranteed."""
    if isinstance(answer, Item):
        return (answer.namespace, answer.key, answer.value)
    if isinstance(answer, list) and answer and isinstance(answer[0], Item):
        return sorted(map(repr, map(plain, answer)))
    return answer


def without_empty(store: InMemoryStore) -> None:
    """Have InMemoryStore omit namespaces without items, which it creates even by reading."""
    for namespace in [one for one, items in store._data.items() if not items]:
        del store._data[namespace]


@settings(max_examples=40, phases=(Phase.explicit, Phase.reuse, Phase.generate))
@given(batches=BATCHES)
async def test_every_call_answers_like_in_memory_store(
    client: local2.Memory, batches: Sequence[list[Op]]
) -> None:
    store = LocalStore(client.of(user=new_id()))
    reference = InMemoryStore()

    for unordered in batches:
        batch = sorted(unordered, key=lambda op: not isinstance(op, ListNamespacesOp))
        expected = await reference.abatch(batch)
        without_empty(reference)
        found = await store.abatch(batch)
        assert list(map(plain, found)) == list(map(plain, expected)), batch
    await store.aclose()


async def test_simultaneous_puts_and_deletes_form_one_batch(
    store: LocalStore,
) -> None:
    """Calls of one turn of the loop are sent together, and each gets its own answer."""
    await asyncio.gather(*(store.aput(("n",), str(n), {"n": n}) for n in range(20)))
    await asyncio.gather(store.aput(("n",), "0", {"n": "new"}), store.adelete(("n",), "1"))

    found = await asyncio.gather(*(store.aget(("n",), str(n)) for n in range(3)))
    assert [one and one.value for one in found] == [{"n": "new"}, None, {"n": 2}]


async def test_an_item_keeps_its_creation_time_and_the_newest_is_first(
    store: LocalStore,
) -> None:
    for key in ("old", "new", "old"):
        await store.aput(("times",), key, {"key": key})

    old, new = await store.asearch(("times",))

    assert (old.key, new.key) == ("old", "new")
    assert old.created_at < new.created_at < old.updated_at
    assert new.created_at == new.updated_at


async def test_pages_of_a_search_return_each_item_once(store: LocalStore) -> None:
    await store.abatch([PutOp(("pages",), str(n), {"n": n}) for n in range(25)])

    pages = [
        await store.asearch(("pages",), filter={"n": {"$gte": 5}}, limit=7, offset=offset)
        for offset in range(0, 28, 7)
    ]

    assert [len(page) for page in pages] == [7, 7, 6, 0]
    assert {one.value["n"] for page in pages for one in page} == set(range(5, 25))


async def test_results_larger_than_a_message_are_returned_completely(store: LocalStore) -> None:
    await store.abatch(
        [PutOp(("large",), str(n), {"text": "x" * 250_000}, False) for n in range(9)]
    )

    found = await store.asearch(("large",), limit=20)
    got = await store.abatch([GetOp(("large",), str(n)) for n in range(9)])

    meant = await store.asearch(("large",), query="anything", limit=20)

    for one_by_one in (found, meant):
        assert sorted(one.key for one in one_by_one) == [str(n) for n in range(9)]
    assert [isinstance(one, Item) and len(one.value["text"]) for one in got] == [250_000] * 9


async def test_an_item_larger_than_a_message_is_refused_with_its_whole_batch(
    store: LocalStore,
) -> None:
    large = PutOp(("large",), "b", {"text": "x" * ITEM_BYTES})
    with pytest.raises(TooLargeError, match=r"600,000 are allowed. Store it in parts"):
        await store.abatch([PutOp(("large",), "a", {}), large])

    assert await store.asearch(("large",)) == []


async def test_text_is_compared_as_text_and_incomparable_values_do_not_match(
    store: LocalStore,
) -> None:
    """InMemoryStore raises ValueError and TypeError here; PostgresStore compares as JSON does."""
    for key, day in (("a", "2026-01-31"), ("b", "2026-10-01"), ("c", None), ("d", 7)):
        await store.aput(("days",), key, {"day": day})

    found = await store.asearch(("days",), filter={"day": {"$gt": "2026-05-01"}})

    assert [one.key for one in found] == ["b"]


@pytest.mark.parametrize(
    "filter_",
    [
        {"text') OR 1=1 --": "x"},
        {"text": "x' OR '1'='1"},
        {"$.text": "one"},
        {"text": {"$eq": "'; DROP TABLE item; --"}},
        {"text.__class__": "x"},
    ],
)
async def test_names_and_values_of_filters_are_never_read_as_sql(
    store: LocalStore, filter_: dict[str, Any]
) -> None:
    await store.aput(("safe",), "one", {"text": "one"})

    assert await store.asearch(("safe",), filter=filter_) == []
    assert (await store.aget(("safe",), "one")) is not None


@pytest.mark.parametrize("text", ["' OR 1=1 --", '"', "a*b NEAR(c)", "*", "%", "\\", "\0"])
async def test_queries_keys_and_labels_are_never_read_as_sql_or_patterns(
    store: LocalStore, text: str
) -> None:
    await store.aput(("safe",), "one", {"text": "one"})
    await store.aput(("safe",), text, {"text": text})

    found = await store.aget(("safe",), text)
    assert found is not None
    assert found.value == {"text": text}
    assert {one.key for one in await store.asearch(("safe",), query=text)} == {"one", text}
    if "\0" not in text:
        assert await store.asearch((text,)) == []


async def test_a_namespace_is_matched_by_whole_labels(store: LocalStore) -> None:
    inside = [("a",), ("a", "b"), ("a", "b", "c")]
    outside = [("ab",), ('a"',), ("a,",), ('a","b',), ("A",), ("b", "a")]
    for namespace in (*inside, *outside):
        await store.aput(namespace, "k", {})

    assert {one.namespace for one in await store.asearch(("a",))} == set(inside)
    assert {one.namespace for one in await store.asearch(("a", "b"))} == set(inside[1:])
    listed = await store.alist_namespaces(prefix=("a",))
    assert set(listed) == set(inside)
    await store.adelete(("a",), "k")
    assert (await store.aget(("ab",), "k")) is not None


@pytest.mark.parametrize("namespace", [("a.b",), ("",), ("a\0",)])
async def test_labels_that_langgraph_refuses_are_also_refused_in_a_batch(
    store: LocalStore, namespace: tuple[str, ...]
) -> None:
    with pytest.raises(InvalidNamespaceError):
        await store.abatch([GetOp(namespace, "k")])


async def test_non_json_values_unknown_operators_and_a_time_to_live_are_refused(
    store: LocalStore,
) -> None:
    with pytest.raises(InvalidArgumentsError, match="Put values that JSON can represent"):
        await store.aput(("n",), "k", {"set": {1, 2}})
    with pytest.raises(InvalidArgumentsError, match="There are \\$eq"):
        await store.asearch(("n",), filter={"n": {"$regex": "x"}})
    with pytest.raises(NotImplementedError, match="time to live"):
        await store.aput(("n",), "k", {}, ttl=5)
    with pytest.raises(NotImplementedError, match="time to live"):
        await store.abatch([PutOp(("n",), "k", {}, ttl=5)])
    with pytest.raises(BadRequestError, match="limit"):
        await store.asearch(("n",), limit=-1)


async def test_a_store_works_in_other_threads_and_refuses_to_block_its_own_loop(
    store: LocalStore,
) -> None:
    def use() -> Any:
        store.put(("sync",), "k", {"n": 1})
        found = store.get(("sync",), "k"), store.search(("sync",)), store.list_namespaces()
        store.delete(("sync",), "k")
        return found, store.batch([GetOp(("sync",), "k")])

    (one, several, namespaces), deleted = await asyncio.to_thread(use)

    assert one.value == {"n": 1}
    assert several == [one] or several[0].value == {"n": 1}
    assert (namespaces, deleted) == ([("sync",)], [None])
    with pytest.raises(asyncio.InvalidStateError):
        store.get(("sync",), "k")


async def test_items_are_found_by_meaning_only_within_their_namespace(
    store: LocalStore, searchable: Memory
) -> None:
    for n, text in enumerate(("The cat sleeps on the sofa.", "Stocks fell.", "It rains in Oslo.")):
        await store.aput(("notes", "ada"), str(n), {"text": text})
        await store.aput(("notes", "eve"), str(n), {"text": f"{text} Or not."})
    await eventually(lambda: indexed(searchable, 6))

    found = await store.asearch(("notes", "ada"), query="Where is the kitten napping?", limit=2)

    assert found[0].value["text"] == "The cat sleeps on the sofa."
    assert found[0].score is not None
    assert {one.namespace for one in found} == {("notes", "ada")}


@pytest.mark.usefixtures("either_size")
async def test_a_large_namespace_does_not_hide_a_small_one(
    store: LocalStore, searchable: Memory
) -> None:
    crowd = [PutOp(("crowd",), str(n), {"text": f"Tea number {n} is green."}) for n in range(120)]
    await store.abatch([*crowd, PutOp(("small",), "k", {"text": "My favourite tea is green."})])
    await eventually(lambda: indexed(searchable, 121))

    (found,) = await store.asearch(("small",), query="Which tea is green?")

    assert (found.key, found.score is not None) == ("k", True)


async def indexed(memory: Memory, records: int) -> bool:
    return (await memory.ledger.counts()).indexed >= records


async def test_a_changed_or_deleted_item_is_not_found_by_its_former_text(
    store: LocalStore, memory: Memory
) -> None:
    for text in ("Ada drinks tea.", "Ada drinks coffee."):
        await store.aput(("facts",), "drink", {"text": text})
    await store.aput(("facts",), "gone", {"text": "Ada drinks tea in Oslo."})
    await store.adelete(("facts",), "gone")

    assert [one.value["text"] for one in await store.asearch(("facts",), query="tea")] == [
        "Ada drinks coffee."
    ]
    assert await contents(memory, "Ada tea coffee") == ["text: Ada drinks coffee."]


async def test_only_agents_of_the_same_user_find_an_item_by_search_memory(
    store: LocalStore, memory: Memory
) -> None:
    await store.aput(("facts",), "drink", {"text": "Ada drinks tea.", "cups": 3})
    await store.aput(("facts",), "secret", {"text": "Ada drinks gin."}, index=False)

    assert await contents(memory, "drinks") == ["text: Ada drinks tea.\ncups: 3"]
    assert await contents(memory, "drinks", user="eve") == []


async def contents(memory: Memory, query: str, user: str = "ada") -> list[str]:
    found = await service(memory, user).search_episodic(query)
    return [hit.content for hit in found.hits]


def service(memory: Memory, user: str = "ada", session: str | None = None) -> MemoryService:
    return memory.of(caller_named(user, agent="mcp", session_id=session))


@pytest.mark.parametrize(
    ("fields", "found"),
    [(["title"], True), (["parts[*].text"], True), (["title", "n"], True), ([], False)],
)
async def test_an_item_is_found_only_by_its_indexed_fields(
    store: LocalStore, memory: Memory, fields: list[str], found: bool
) -> None:
    value = {"title": "Osmium", "n": 7, "parts": [{"text": "osmium"}], "other": "lead"}
    await store.aput(("fields",), "k", value, index=fields)

    assert bool(await contents(memory, "osmium")) is found
    assert await contents(memory, "lead") == []


async def test_forgetting_a_user_or_session_deletes_its_items(
    store: LocalStore, client: local2.Memory, memory: Memory
) -> None:
    of_session = LocalStore(client.of(user="ada", session="s1"))
    eve = LocalStore(client.of(user="eve"))
    for one in (store, of_session, eve):
        await one.aput(("n",), str(id(one)), {"text": "Ada drinks tea."})
    erasure = service(memory).erasure

    receipt = await erasure.erase(erasure.selection(session_id="s1"))
    assert receipt.erased["items"] == 1
    assert [one.key for one in await store.asearch(("n",))] == [str(id(store))]

    preview = await erasure.erase(erasure.selection(everything=True), dry_run=True)
    receipt = await erasure.erase(erasure.selection(everything=True))
    assert preview.erased["items"] == receipt.erased["items"] == 1
    assert [check.found for check in receipt.checks if check.name == "items"] == [0]
    assert await store.asearch(("n",)) == []
    assert len(await eve.asearch(("n",))) == 1
    for one in (of_session, eve):
        await one.aclose()
