"""Store frameworks' items exactly, and find them by key, value, meaning and words.

An item with a text also has a record, an episode of its owner, so that it is indexed, searched,
exported and erased like every memory. The ledger calls the pure functions for filters and paths.
"""

import operator
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import msgspec

from local2.errors import InvalidArgumentsError, quoted
from local2.ledger.ledger import Ledger
from local2.ledger.operations.items import (
    FoundKey,
    ItemCollection,
    ItemSelection,
    ItemsWritten,
    ItemWriter,
    NewItem,
)
from local2.ledger.records import NewRecord
from local2.memory.changes import Changes
from local2.memory.intake.episodes import EPISODE
from local2.memory.recall.recaller import Recaller, RecallRequest, RecallResult
from local2.memory.scopes import Weights, check_may_write, owner_of
from local2.protocol.envelope import Caller, Clock, new_id
from local2.protocol.items import (
    MAX_INDEXED_CHARACTERS,
    DeleteItems,
    GetItems,
    ItemsChanged,
    ItemsFound,
    ItemsGot,
    ListNamespaces,
    Namespace,
    NamespaceMatch,
    NamespacesFound,
    PutItems,
    SearchItems,
    check_item_size,
    path_text,
)
from local2.protocol.payloads import Json

OWNER_WEIGHTS = Weights(session=0, history=0, user=1, agent=0, tenant=0)
"""Search the owner's records only: items belong to their owner, not to a session."""
FIRST_RECALLED = 100
"""Number of records recalled at first, and multiplied by four as long as too few items match."""
MAX_RECALLED = 10_000
"""Maximum number of records recalled for one search."""
COMPARISONS: Mapping[str, Callable[[Any, Any], Any]] = {
    "$eq": operator.eq,
    "$ne": operator.ne,
    "$gt": operator.gt,
    "$gte": operator.ge,
    "$lt": operator.lt,
    "$lte": operator.le,
}
WILDCARD = "*"


class CallerItems:
    """The items of one caller."""

    def __init__(
        self, ledger: Ledger, changes: Changes, recaller: Recaller, caller: Caller, clock: Clock
    ) -> None:
        self._ledger = ledger
        self._changes = changes
        self._recaller = recaller
        self._caller = caller
        self._clock = clock

    async def put(self, request: PutItems) -> ItemsChanged:
        """Store items, and delete those without a value, in one transaction.

        Raises:
            TooLargeError: An item does not fit into a reply.
            ForbiddenError: The caller's role may not write to the scope `user`.
            QuotaError: The tenant may not store as many items.
        """
        check_may_write("user", self._caller)
        for item in request.items:
            check_item_size(item)
        of = self._items_of(request.collection)
        new = []
        for item in request.items:
            record = None
            if item.text is not None and item.text.strip() and not item.deletes:
                record = NewRecord(  # makes the item searchable
                    id=new_id(),
                    kind=EPISODE,
                    scope="user",
                    owner=owner_of(self._caller),
                    content=item.text[:MAX_INDEXED_CHARACTERS],
                    source_ref=path_text((of.collection, *item.namespace, item.key)),
                    event_time=self._clock(),
                    agent=self._caller.agent,
                    session_id=self._caller.session_id,
                    metadata={"namespace": list(item.namespace), "key": item.key},
                )
            new.append(NewItem(put=item, record=record))
        return self._announce(await self._ledger.items.put(of, new, self._writer()))

    async def delete(self, request: DeleteItems) -> ItemsChanged:
        """Delete items by key and by whole namespaces, in one transaction.

        Raises:
            ForbiddenError: The caller's role may not write to the scope `user`.
        """
        check_may_write("user", self._caller)
        of = self._items_of(request.collection)
        written = await self._ledger.items.delete(
            of, request.keys, request.namespaces, self._writer()
        )
        return self._announce(written)

    async def get(self, request: GetItems) -> ItemsGot:
        """The items with these keys, as many as fit into a reply."""
        of = self._items_of(request.collection)
        return ItemsGot(items=await self._ledger.items.get(of, request.keys))

    async def search(self, request: SearchItems) -> ItemsFound:
        """The matching items, as many as fit into a reply.

        Raises:
            InvalidArgumentsError: The filter has an unknown operator.
            OverloadedError: Too many searches are waiting.
        """
        within = ItemSelection(
            namespace=request.namespace,
            exact=request.exact,
            before=request.before,
            wanted=filter_predicate(request.filter),
            limit=request.limit,
            offset=request.offset,
        )
        of = self._items_of(request.collection)
        if request.query is None or not request.query.strip() or not request.limit:
            return await self._ledger.items.within(of, within)
        # The items that recall finds, best first, then the other matching items.
        wanted = request.offset + request.limit
        recalled, ranked = await self._recall(request, request.query, of, within)
        rest = ItemSelection(namespace=request.namespace, wanted=within.wanted, limit=wanted)
        others = [key for key in await self._ledger.items.keys(of, rest) if key not in ranked]
        keys = [*ranked, *others][request.offset : wanted]
        items = await self._ledger.items.get(of, keys)
        return ItemsFound(
            items=[
                msgspec.structs.replace(item, score=ranked.get(key))
                for key, item in zip(keys, items, strict=False)
                if item is not None
            ],
            cut=len(items) < len(keys),
            degraded=recalled.degraded,
            reason=recalled.reason,
        )

    async def namespaces(self, request: ListNamespaces) -> NamespacesFound:
        """The matching namespaces that contain items."""
        of, prefix = self._items_of(request.collection), fixed_prefix(request.matches)
        found = await self._ledger.items.namespaces(
            of, prefix, lambda every: matching(request, every)
        )
        return NamespacesFound(namespaces=found)

    async def _recall(
        self, request: SearchItems, query: str, of: ItemCollection, within: ItemSelection
    ) -> tuple[RecallResult, dict[FoundKey, float]]:
        """Recall's result for the namespace, and the matching items with their scores."""
        wanted, top_k = request.offset + request.limit, FIRST_RECALLED
        while True:
            recall = RecallRequest(
                query=query,
                top_k=max(top_k, wanted),
                kinds=(EPISODE,),
                weights=OWNER_WEIGHTS,
                repetitions=True,
                source=path_text((request.collection, *request.namespace)),
            )
            recalled = await self._recaller.recall(self._caller, recall)
            scores = {item.record.id: item.score for item in recalled.items}
            found = await self._ledger.items.of_records(of, list(scores), within)
            exhausted = len(recalled.items) < recall.top_k or recall.top_k >= MAX_RECALLED
            if exhausted or len(found) >= wanted:
                found.sort(key=lambda item: -scores[item.record or ""])
                return recalled, {item: scores[item.record or ""] for item in found}
            top_k *= 4

    def _announce(self, written: ItemsWritten) -> ItemsChanged:
        self._changes.written(written.written, written.records)
        self._changes.deleted(written.retired, EPISODE)
        return ItemsChanged(stored=written.stored, deleted=written.deleted)

    def _items_of(self, collection: str) -> ItemCollection:
        return ItemCollection(owner=owner_of(self._caller), collection=collection)

    def _writer(self) -> ItemWriter:
        caller = self._caller
        return ItemWriter(
            at=self._clock(), agent=caller.agent, user=caller.user, session_id=caller.session_id
        )


def filter_predicate(filter_: Json | None) -> Callable[[Any], bool] | None:
    """A predicate that tests a value against a filter; None if there is no filter.

    Raises:
        InvalidArgumentsError: The filter has an unknown operator.
    """
    if not filter_:
        return None
    for condition in filter_.values():
        _check_operators(condition)
    return lambda value: isinstance(value, dict) and _has_fields(value, filter_)


def _check_operators(condition: Any) -> None:
    if isinstance(condition, dict):
        compares = any(name.startswith("$") for name in condition)  # then all of them must
        for name, inner in condition.items():
            if compares and name not in COMPARISONS:
                raise InvalidArgumentsError(
                    f"filter: {quoted(name)} is not an operator.",
                    remedy=f"There are {', '.join(COMPARISONS)}.",
                )
            _check_operators(inner)


def _has_fields(value: Mapping[str, Any], filter_: Json) -> bool:
    return all(_matches(value.get(name), condition) for name, condition in filter_.items())


def _matches(value: Any, condition: Any) -> bool:
    if isinstance(condition, dict):
        if any(name.startswith("$") for name in condition):
            return all(_compares(value, name, other) for name, other in condition.items())
        return isinstance(value, dict) and _has_fields(value, condition)
    if isinstance(condition, list):
        same = isinstance(value, list) and len(value) == len(condition)
        return same and all(map(_matches, value, condition))
    return bool(value == condition)


def _compares(value: Any, name: str, other: Any) -> bool:
    if name not in {"$eq", "$ne"}:
        numbers = _number(value), _number(other)
        if None not in numbers:
            value, other = numbers
        elif not (isinstance(value, str) and isinstance(other, str)):
            return False
    return bool(COMPARISONS[name](value, other))


def _number(value: Any) -> float | None:
    if not isinstance(value, int | float | str):
        return None
    try:
        return float(value)
    except (ValueError, OverflowError):
        return None


def fixed_prefix(matches: Sequence[NamespaceMatch]) -> Namespace:
    """The longest prefix without a wildcard that all matching namespaces have."""
    paths = [match.path for match in matches if match.type == "prefix"]
    fixed = [path[: path.index(WILDCARD)] if WILDCARD in path else path for path in paths]
    return max(fixed, key=len, default=())


def matching(request: ListNamespaces, namespaces: Sequence[Namespace]) -> list[Namespace]:
    """The matching namespaces, cut to the requested depth and sorted."""

    def fits(match: NamespaceMatch, namespace: Namespace) -> bool:
        if len(namespace) < len(match.path):
            return False
        start = 0 if match.type == "prefix" else len(namespace) - len(match.path)
        parts = zip(namespace[start:], match.path, strict=False)
        return all(wanted in {WILDCARD, part} for part, wanted in parts)

    found = {
        path[: request.depth] for path in namespaces if all(fits(m, path) for m in request.matches)
    }
    return sorted(found)[request.offset : request.offset + request.limit]
