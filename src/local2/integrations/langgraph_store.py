"""LangGraph's `BaseStore` over the bus: items by namespace and key, searched by the memory."""

import json
from collections.abc import AsyncIterator, Iterable, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager
from typing import Any, Literal, Self

import msgspec
from langgraph.store.base import (
    NOT_PROVIDED,
    GetOp,
    Item,
    ListNamespacesOp,
    NotProvided,
    Op,
    PutOp,
    Result,
    SearchItem,
    SearchOp,
    get_text_at_path,
    validate_op_namespace,
)
from langgraph.store.base.batch import AsyncBatchedBaseStore

from local2.background import stop
from local2.client.blocking import Opening
from local2.client.memory import Memory, connect
from local2.errors import InvalidArgumentsError
from local2.protocol.items import (
    MAX_INDEXED_CHARACTERS,
    ItemKey,
    ItemPut,
    ListNamespaces,
    NamespaceMatch,
    SearchItems,
    StoredItem,
    check_item_size,
)

COLLECTION = "langgraph.store"
AGENT = "langgraph"
ALL_FIELDS = "$"

Fields = Sequence[str] | Literal[False]


class LocalStore(AsyncBatchedBaseStore):
    """One user's items. Batches concurrent operations, as AsyncPostgresStore does.

    A batch reads the state from before it, and its puts are on disk when it returns. Requests for a
    time to live are refused.
    """

    def __init__(self, memory: Memory, *, index: Fields = (ALL_FIELDS,)) -> None:
        """Use an open memory, for its caller and, if it has one, its session.

        `index` names the fields whose text is searched: `$` means all fields, False none.
        `put(…, index=…)` overrides it for one item.
        """
        super().__init__()
        self._items = memory.items(COLLECTION)
        self._index = index

    @classmethod
    def connect(cls, *, index: Fields = (ALL_FIELDS,), **options: Any) -> Opening[Self, Self]:
        """Open a memory with the options of `local2.connect`, and a store in it.

        The items belong to its `user`, by default the one who is logged in. Opened with `with`,
        the store has an event loop of its own, for its synchronous methods.
        """

        @asynccontextmanager
        async def open_store() -> AsyncIterator[Self]:
            async with connect(**{"agent": AGENT, **options}) as memory:
                store = cls(memory, index=index)
                try:
                    yield store
                finally:
                    await store.aclose()

        return Opening(open_store(), lambda store: store)

    async def aclose(self) -> None:
        """Stop accepting operations."""
        if self._task is not None:
            await stop(self._task)

    async def aput(
        self,
        namespace: tuple[str, ...],
        key: str,
        value: Mapping[str, Any],
        index: Literal[False] | list[str] | None = None,
        *,
        ttl: float | NotProvided | None = NOT_PROVIDED,
    ) -> None:
        """Store an item. An invalid item is refused here, so that it cannot fail a whole batch."""
        if ttl not in {NOT_PROVIDED, None}:
            raise NotImplementedError("LocalStore has no time to live; delete expired items.")
        self._put(PutOp(namespace, str(key), value, index))
        await super().aput(namespace, str(key), value, index)

    async def abatch(self, ops: Iterable[Op]) -> list[Result]:
        """Read first, then store the puts together: the last value of each key."""
        operations = list(ops)
        for op in operations:
            validate_op_namespace(op)
        puts = {(op.namespace, op.key): self._put(op) for op in operations if isinstance(op, PutOp)}
        gets = [
            ItemKey(namespace=op.namespace, key=op.key)
            for op in operations
            if isinstance(op, GetOp)
        ]
        found = iter(await self._items.get(gets))
        results: list[Result] = []
        for op in operations:
            match op:
                case GetOp():
                    got = next(found)
                    results.append(Item(**_columns(got)) if got else None)
                case SearchOp():
                    wanted = SearchItems(
                        collection=COLLECTION,
                        namespace=op.namespace_prefix,
                        query=op.query,
                        filter=op.filter,
                        limit=op.limit,
                        offset=op.offset,
                    )
                    results.append(
                        [
                            SearchItem(**_columns(item), score=item.score)
                            for item in await self._items.search(wanted)
                        ]
                    )
                case ListNamespacesOp():
                    listing = ListNamespaces(
                        collection=COLLECTION,
                        matches=tuple(
                            NamespaceMatch(type=match.match_type, path=tuple(match.path))
                            for match in op.match_conditions or ()
                        ),
                        depth=op.max_depth,
                        limit=op.limit,
                        offset=op.offset,
                    )
                    results.append(await self._items.namespaces(listing))
                case _:
                    results.append(None)
        await self._items.put(list(puts.values()))
        return results

    def _put(self, op: PutOp) -> ItemPut:
        if op.ttl is not None:
            raise NotImplementedError("LocalStore has no time to live; delete expired items.")
        if op.value is None:
            return ItemPut(namespace=op.namespace, key=op.key)
        value = dict(op.value)
        fields = self._index if op.index is None else op.index
        try:
            written = msgspec.Raw(json.dumps(value, allow_nan=False).encode())
        except (TypeError, ValueError) as error:
            raise InvalidArgumentsError(
                f"value: {error}.",
                remedy="Put values that JSON can represent: text, numbers, lists, objects.",
            ) from error
        lines: list[str] = []
        for field in fields or ():
            lines += _lines_of(value) if field == ALL_FIELDS else get_text_at_path(value, field)
        indexed = "\n".join(lines)[:MAX_INDEXED_CHARACTERS] or None
        item = ItemPut(namespace=op.namespace, key=op.key, value=written, text=indexed)
        check_item_size(item)
        return item


def _columns(item: StoredItem) -> dict[str, Any]:
    return {
        "namespace": item.namespace,
        "key": item.key,
        "value": json.loads(bytes(item.value)),
        "created_at": item.created_at,
        "updated_at": item.updated_at,
    }


def _lines_of(value: Any, name: str = "") -> Iterator[str]:
    """Yield all fields of a value with their names, one a line."""
    if isinstance(value, dict):
        for key, inner in value.items():
            yield from _lines_of(inner, str(key))
    elif isinstance(value, list | tuple):
        for inner in value:
            yield from _lines_of(inner, name)
    elif value is not None:
        yield f"{name}: {value}"
