"""Store and find items over the bus, split into as many messages as they need."""

from collections.abc import AsyncIterator, Sequence
from typing import Self

import msgspec

from local2.client.calls import Calls
from local2.protocol.items import (
    MAX_ITEMS_PER_REQUEST,
    DeleteItems,
    GetItems,
    ItemKey,
    ItemPut,
    ListNamespaces,
    PutItems,
    SearchItems,
    StoredItem,
    check_item_size,
    size_of,
)
from local2.protocol.payloads import split_into_parts
from local2.protocol.services import (
    DELETE_ITEMS,
    GET_ITEMS,
    LIST_NAMESPACES,
    PUT_ITEMS,
    SEARCH_ITEMS,
)

MESSAGE_BYTES = 800_000
"""Maximum bytes of the items in one message; the bus carries 1 MB."""


class Items:
    """The items of one application, for one user."""

    def __init__(self, calls: Calls, collection: str) -> None:
        self.collection = collection
        self._calls = calls

    def in_session(self, session_id: str) -> Self:
        """The same items; those stored through it belong to the session.

        Forgetting the session erases them.
        """
        return type(self)(self._calls.of(session_id=session_id), self.collection)

    async def put(self, items: Sequence[ItemPut]) -> None:
        """Store items, and delete those without a value. A message is stored whole or not at all.

        Raises:
            TooLargeError: An item is larger than a message; nothing was stored.
            Local2Error: The items were refused, or there is no reply.
        """
        for item in items:
            check_item_size(item)
        for part in split_into_parts(
            items,
            lambda item: size_of(item) + len(item.text or "") + 1_000,
            max_bytes=MESSAGE_BYTES,
            max_items=MAX_ITEMS_PER_REQUEST,
        ):
            request = PutItems(collection=self.collection, items=part)
            await self._calls.ask_service(PUT_ITEMS, request)

    async def get(self, keys: Sequence[ItemKey]) -> list[StoredItem | None]:
        """Read the items under these keys; None for each key without an item."""
        found: list[StoredItem | None] = []
        while len(found) < len(keys):
            wanted = list(keys[len(found) : len(found) + MAX_ITEMS_PER_REQUEST])
            request = GetItems(collection=self.collection, keys=wanted)
            found += (await self._calls.ask_service(GET_ITEMS, request)).items
        return found

    async def search(self, wanted: SearchItems) -> list[StoredItem]:
        """Find the matching items, in as many messages as they need."""
        found: list[StoredItem] = []
        while True:
            rest, seen = wanted.limit - len(found), wanted.offset + len(found)
            request = msgspec.structs.replace(wanted, limit=rest, offset=seen)
            answer = await self._calls.ask_service(SEARCH_ITEMS, request)
            found += answer.items
            if not answer.cut:
                return found

    async def each_in(
        self,
        namespace: tuple[str, ...],
        *,
        before: str | None = None,
        page_size: int = MAX_ITEMS_PER_REQUEST,
    ) -> AsyncIterator[StoredItem]:
        """Yield the items of one namespace by descending key, fetched as they are used."""
        while True:
            wanted = SearchItems(
                collection=self.collection,
                namespace=namespace,
                exact=True,
                before=before,
                limit=page_size,
            )
            found = await self._calls.ask_service(SEARCH_ITEMS, wanted)
            for item in found.items:
                yield item
                before = item.key
            if not found.cut and len(found.items) < page_size:
                return

    async def namespaces(self, wanted: ListNamespaces) -> list[tuple[str, ...]]:
        """List the matching namespaces that hold items."""
        found = await self._calls.ask_service(LIST_NAMESPACES, wanted)
        return found.namespaces

    async def delete(
        self, *, keys: Sequence[ItemKey] = (), namespaces: Sequence[tuple[str, ...]] = ()
    ) -> int:
        """Delete items, and namespaces with everything within them, in one transaction.

        Returns how many items were deleted.
        """
        request = DeleteItems(
            collection=self.collection, keys=list(keys), namespaces=list(namespaces)
        )
        changed = await self._calls.ask_service(DELETE_ITEMS, request)
        return changed.deleted
