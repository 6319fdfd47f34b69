"""Items: what frameworks store exactly, and find by key, by value, by meaning and by words.

An item with a text has a record beside it, an episode of its owner, so that it is indexed,
searched, exported and forgotten like every memory. Pure functions, which the ledger calls, decide
which items match by their values, and which namespaces are listed.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import msgspec

from local.errors import InvalidArgumentsError, quoted
from local.ledger.door import Ledger
from local.ledger.records import TENANT_OWNED, NewRecord
from local.ledger.sessions import FoundKey, ItemsOf, ItemsWritten, NewItem, Storing, Within
from local.memory.changes import Changes
from local.memory.intake.episodes import EPISODE
from local.memory.recall.recaller import Recaller, RecallRequest, RecallResult
from local.memory.scopes import Weights, check_may_write
from local.protocol.envelope import Caller, Clock, new_id
from local.protocol.items import (
    MAX_INDEXED_CHARACTERS,
    DeleteItems,
    GetItems,
    ItemPut,
    ItemsChanged,
    ItemsFound,
    ItemsGot,
    ListNamespaces,
    NamespaceMatch,
    NamespacesFound,
    PutItems,
    SearchItems,
    check_size,
    path_text,
)
from local.protocol.payloads import Json

OWN = Weights(session=0, history=0, user=1, agent=0, tenant=0)
"""Items belong to their owner: no session's episodes are among them."""
RECALLED = 100
"""Records recalled at first; while a filter leaves too few of them, four times as many."""
MOST_RECALLED = 10_000
OPERATORS = ("$eq", "$ne", "$gt", "$gte", "$lt", "$lte")
ANY = "*"


class Items:
    """One caller's items."""

    def __init__(
        self,
        ledger: Ledger,
        changes: Changes,
        recaller: Recaller,
        caller: Caller,
        clock: Clock,
    ) -> None:
        self._ledger = ledger
        self._changes = changes
        self._recaller = recaller
        self._caller = caller
        self._clock = clock

    async def put(self, ask: PutItems) -> ItemsChanged:
        """Store items, and delete those without a value, all or none.

        Raises:
            TooLargeError: One is larger than a message returns.
            ForbiddenError: The caller's role may not write what is a user's own.
            QuotaError: They are more than the tenant may store.
        """
        check_may_write("user", self._caller)
        for item in ask.items:
            check_size(item)
        new = [NewItem(put=item, record=self._record(ask.collection, item)) for item in ask.items]
        of = self._of(ask.collection)
        return await self._written(await self._ledger.items.put(of, new, self._by()))

    async def delete(self, ask: DeleteItems) -> ItemsChanged:
        """Delete items by key, and all of some namespaces, at once.

        Raises:
            ForbiddenError: The caller's role may not write what is a user's own.
        """
        check_may_write("user", self._caller)
        of = self._of(ask.collection)
        return await self._written(
            await self._ledger.items.delete(of, ask.keys, ask.namespaces, self._by())
        )

    async def get(self, ask: GetItems) -> ItemsGot:
        """Return the items under some keys, as many as an answer holds."""
        return ItemsGot(items=await self._ledger.items.get(self._of(ask.collection), ask.keys))

    async def search(self, ask: SearchItems) -> ItemsFound:
        """Return the matching items, as many as an answer holds.

        Raises:
            InvalidArgumentsError: The filter has an unknown operator.
            OverloadedError: Too many searches wait.
        """
        within = Within(
            namespace=ask.namespace,
            exact=ask.exact,
            before=ask.before,
            wanted=wanted_by(ask.filter),
            limit=ask.limit,
            offset=ask.offset,
        )
        of = self._of(ask.collection)
        if ask.query is None or not ask.query.strip() or not ask.limit:
            page = await self._ledger.items.within(of, within)
            return ItemsFound(items=page.items, cut=page.cut)
        return await self._meant(ask, ask.query, of, within)

    async def namespaces(self, ask: ListNamespaces) -> NamespacesFound:
        """Return the namespaces that hold items and match."""
        found = await self._ledger.items.namespaces(
            self._of(ask.collection), beginning(ask.matches), lambda every: chosen(ask, every)
        )
        return NamespacesFound(namespaces=found)

    async def _meant(self, ask: SearchItems, query: str, of: ItemsOf, within: Within) -> ItemsFound:
        """Return what the query means, best first, and after it the other matching items."""
        wanted = ask.offset + ask.limit
        recalled, ranked = await self._recalled(ask, query, of, within)
        rest = Within(namespace=ask.namespace, wanted=within.wanted, limit=wanted)
        others = [one for one in await self._ledger.items.keys(of, rest) if one not in ranked]
        keys = [*ranked, *others][ask.offset : wanted]
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

    async def _recalled(
        self, ask: SearchItems, query: str, of: ItemsOf, within: Within
    ) -> tuple[RecallResult, dict[FoundKey, float]]:
        """Return what recall finds of the namespace, and the items of these records with scores."""
        wanted, top_k = ask.offset + ask.limit, RECALLED
        while True:
            request = RecallRequest(
                query=query,
                top_k=max(top_k, wanted),
                kinds=(EPISODE,),
                weights=OWN,
                repetitions=True,
                source=path_text((ask.collection, *ask.namespace)),
            )
            recalled = await self._recaller.recall(self._caller, request)
            scores = {item.record.id: item.score for item in recalled.items}
            found = await self._ledger.items.of_records(of, list(scores), within)
            all_of_it = len(recalled.items) < request.top_k or request.top_k >= MOST_RECALLED
            if all_of_it or len(found) >= wanted:
                found.sort(key=lambda one: -scores[one.record or ""])
                return recalled, {one: scores[one.record or ""] for one in found}
            top_k *= 4

    async def _written(self, written: ItemsWritten) -> ItemsChanged:
        self._changes.written(written.written, written.records)
        self._changes.deleted(written.retired, EPISODE)
        return ItemsChanged(stored=written.stored, deleted=written.deleted)

    def _record(self, collection: str, item: ItemPut) -> NewRecord | None:
        """Return the record by which searches find an item, if the item has a text."""
        if item.deletes or item.text is None or not item.text.strip():
            return None
        return NewRecord(
            id=new_id(),
            kind=EPISODE,
            scope="user",
            owner=self._owner,
            content=item.text[:MAX_INDEXED_CHARACTERS],
            source_ref=path_text((collection, *item.namespace, item.key)),
            event_time=self._clock(),
            agent=self._caller.agent,
            session_id=self._caller.session_id,
            metadata={"namespace": list(item.namespace), "key": item.key},
        )

    def _of(self, collection: str) -> ItemsOf:
        return ItemsOf(owner=self._owner, collection=collection)

    def _by(self) -> Storing:
        caller = self._caller
        return Storing(
            at=self._clock(), agent=caller.agent, user=caller.user, session_id=caller.session_id
        )

    @property
    def _owner(self) -> str:
        return self._caller.user or TENANT_OWNED


Path = tuple[str, ...]


def wanted_by(filter_: Json | None) -> Callable[[Any], bool] | None:
    """Return the test of a value against the filter; None if there is no filter.

    Raises:
        InvalidArgumentsError: It has an unknown operator.
    """
    if not filter_:
        return None
    for condition in filter_.values():
        _check_operators(condition)
    return lambda value: isinstance(value, dict) and _has(value, filter_)


def _check_operators(condition: Any) -> None:
    if isinstance(condition, dict):
        for name, inner in condition.items():
            if name.startswith("$") and name not in OPERATORS:
                raise InvalidArgumentsError(
                    f"filter: {quoted(name)} is no operator.",
                    remedy=f"There are {', '.join(OPERATORS)}.",
                )
            _check_operators(inner)


def _has(value: Mapping[str, Any], filter_: Json) -> bool:
    return all(_matches(value.get(name), condition) for name, condition in filter_.items())


def _matches(value: Any, condition: Any) -> bool:
    if isinstance(condition, dict):
        if any(name.startswith("$") for name in condition):
            return all(_holds(value, name, other) for name, other in condition.items())
        return isinstance(value, dict) and _has(value, condition)
    if isinstance(condition, list):
        same = isinstance(value, list) and len(value) == len(condition)
        return same and all(map(_matches, value, condition))
    return bool(value == condition)


def _holds(value: Any, operator: str, other: Any) -> bool:
    if operator in {"$eq", "$ne"}:
        return bool(value == other) == (operator == "$eq")
    numbers = _number(value), _number(other)
    if None not in numbers:
        value, other = numbers
    elif not (isinstance(value, str) and isinstance(other, str)):
        return False
    match operator:
        case "$gt":
            return bool(value > other)
        case "$gte":
            return bool(value >= other)
        case "$lt":
            return bool(value < other)
        case _:
            return bool(value <= other)


def _number(value: Any) -> float | None:
    if not isinstance(value, int | float | str):
        return None
    try:
        return float(value)
    except (ValueError, OverflowError):
        return None


def beginning(matches: Sequence[NamespaceMatch]) -> Path:
    """Return the beginning of every matching namespace, up to the first wildcard."""
    paths = [match.path for match in matches if match.type == "prefix"]
    known = [path[: path.index(ANY)] if ANY in path else path for path in paths]
    return max(known, key=len, default=())


def chosen(ask: ListNamespaces, namespaces: Sequence[Path]) -> list[Path]:
    """Return the matching namespaces, cut to the depth, in their order."""
    matching = {
        path[: ask.depth] for path in namespaces if all(_fits(m, path) for m in ask.matches)
    }
    return sorted(matching)[ask.offset : ask.offset + ask.limit]


def _fits(match: NamespaceMatch, namespace: Path) -> bool:
    if len(namespace) < len(match.path):
        return False
    start = 0 if match.type == "prefix" else len(namespace) - len(match.path)
    return all(
        wanted in {ANY, part} for part, wanted in zip(namespace[start:], match.path, strict=False)
    )
