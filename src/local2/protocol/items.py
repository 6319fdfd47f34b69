"""Items on the wire: values that a framework stores exactly, under a namespace and a key.

A namespace is a path: `["users", "ada"]` also contains the items of `["users", "ada", "drafts"]`.
Each application has its own collection; its items never appear in another one.
"""

from collections.abc import Iterable, Iterator, Sequence
from datetime import datetime
from typing import Annotated, Literal, TypeVar

import msgspec

from local2.errors import TooLargeError
from local2.protocol.payloads import Json, ServiceRequest

ITEM_BYTES = 600_000
"""Maximum bytes of an item as JSON: requests and answers with it fit into a message of 1 MB."""
ANSWER_BYTES = ITEM_BYTES
"""Maximum bytes of the items in one answer; the first item is always included."""
PLACE_BYTES = 500
"""Approximate bytes of an item's namespace, key and times."""
MAX_ITEMS_PER_REQUEST = 1_000
"""Maximum items in one request: they are stored in one transaction, which other writes wait for."""
MAX_LIMIT = 10_000
"""Maximum items or namespaces that a search or listing may request."""
MAX_INDEXED_CHARACTERS = 10_000
"""Maximum characters of an item's text that are searched; embedders read fewer."""

Collection = Annotated[str, msgspec.Meta(pattern=r"^[a-z0-9][a-z0-9._-]{0,63}$")]
Part = Annotated[str, msgspec.Meta(max_length=1024)]
Namespace = Annotated[tuple[Part, ...], msgspec.Meta(max_length=32)]
Key = Annotated[str, msgspec.Meta(max_length=1024)]
Limit = Annotated[int, msgspec.Meta(ge=0, le=MAX_LIMIT)]
Offset = Annotated[int, msgspec.Meta(ge=0, lt=2**53)]

NOTHING = msgspec.Raw(b"null")
"""No value. It is made by a factory below, since a JSON schema cannot state it as a default."""


class ItemKey(msgspec.Struct, frozen=True, kw_only=True):
    """The namespace and key of an item."""

    namespace: Namespace
    key: Key


class ItemPut(ItemKey, frozen=True, kw_only=True, omit_defaults=True, forbid_unknown_fields=True):
    """An item to store; an item without value and data is deleted.

    `text`: the text that searches match. `keep`: do not change an existing item.
    """

    value: msgspec.Raw = msgspec.field(default_factory=lambda: NOTHING)
    data: bytes | None = None
    text: str | None = None
    keep: bool = False

    @property
    def deletes(self) -> bool:
        return self.data is None and bytes(self.value) == bytes(NOTHING)


class StoredItem(ItemKey, frozen=True, kw_only=True, omit_defaults=True):
    """A stored item; `score`, from 0 to 1, is set if a search matched its text."""

    created_at: datetime
    updated_at: datetime
    value: msgspec.Raw = msgspec.field(default_factory=lambda: NOTHING)
    data: bytes | None = None
    score: float | None = None


class PutItems(ServiceRequest, frozen=True, kw_only=True):
    """`memory.items.put`: store all items, or none."""

    collection: Collection
    items: Annotated[list[ItemPut], msgspec.Meta(max_length=MAX_ITEMS_PER_REQUEST)]


class GetItems(ServiceRequest, frozen=True, kw_only=True):
    """`memory.items.get`: the items under these keys."""

    collection: Collection
    keys: Annotated[list[ItemKey], msgspec.Meta(max_length=MAX_ITEMS_PER_REQUEST)]


class SearchItems(ServiceRequest, frozen=True, kw_only=True):
    """`memory.items.search`: the items of a namespace and all within it, newest first.

    With a `query`, items that match it by meaning come first, best match first. `filter` compares
    fields of the value: with a value for equality, or with `$eq`, `$ne`, `$gt`, `$gte`, `$lt` and
    `$lte`. `exact`: only items of the namespace itself, in descending order of keys, and with
    `before` only smaller keys.
    """

    collection: Collection
    namespace: Namespace = ()
    query: str | None = None
    filter: Json | None = None
    exact: bool = False
    before: Key | None = None
    limit: Limit = 10
    offset: Offset = 0


class NamespaceMatch(msgspec.Struct, frozen=True, kw_only=True):
    """The beginning or end of a namespace; `*` matches any part."""

    type: Literal["prefix", "suffix"]
    path: Namespace


class ListNamespaces(ServiceRequest, frozen=True, kw_only=True):
    """`memory.items.list`: matching namespaces with items, sorted; `depth` cuts their paths."""

    collection: Collection
    matches: Annotated[tuple[NamespaceMatch, ...], msgspec.Meta(max_length=8)] = ()
    depth: Annotated[int, msgspec.Meta(ge=1)] | None = None
    limit: Limit = 100
    offset: Offset = 0


class DeleteItems(ServiceRequest, frozen=True, kw_only=True):
    """`memory.items.delete`: these items, and all in or within these namespaces, in one step."""

    collection: Collection
    keys: Annotated[list[ItemKey], msgspec.Meta(max_length=MAX_ITEMS_PER_REQUEST)] = msgspec.field(
        default_factory=list
    )
    namespaces: Annotated[list[Namespace], msgspec.Meta(max_length=MAX_ITEMS_PER_REQUEST)] = (
        msgspec.field(default_factory=list)
    )


class ItemsChanged(msgspec.Struct, kw_only=True):
    """The answer to `put` and `delete`: the numbers of stored and deleted items."""

    stored: int = 0
    deleted: int = 0


class ItemsGot(msgspec.Struct, kw_only=True):
    """The answer to `get`: the item, or null, for each key in order.

    It contains as many as fit into a message; if there are fewer than keys, request the rest.
    """

    items: list[StoredItem | None]


class ItemsFound(msgspec.Struct, kw_only=True, omit_defaults=True):
    """The answer to `search`. `cut`: further items did not fit into the message.

    `degraded`: some items could be found only by their words, for this `reason`.
    """

    items: list[StoredItem] = []
    cut: bool = False
    degraded: bool = False
    reason: str | None = None


class NamespacesFound(msgspec.Struct, kw_only=True):
    """The answer to `list`."""

    namespaces: list[tuple[str, ...]] = []


def path_text(parts: Sequence[str]) -> str:
    """Write a namespace as text that is a prefix of exactly the namespaces within it.

    Each part is JSON followed by a comma, so that no part can extend into the next.
    """
    return "".join(f"{msgspec.json.encode(part).decode()}," for part in parts)


def path_of(text: str) -> tuple[str, ...]:
    """Read what `path_text` wrote."""
    return msgspec.json.decode(f"[{text.removesuffix(',')}]", type=tuple[str, ...])


def size_of(item: ItemPut | StoredItem) -> int:
    """The item's bytes as JSON, without namespace, key and times."""
    return len(bytes(item.value)) + len(item.data or b"") * 4 // 3


F = TypeVar("F", bound=StoredItem | None)


def fit_into_answer(items: Iterable[F]) -> Iterator[tuple[F, bool]]:
    """Yield items with whether they fit into the answer, up to the first that does not.

    The first item always fits. Items after the one that does not fit are not read.
    """
    total = 0
    for number, item in enumerate(items):
        total += PLACE_BYTES + (size_of(item) if isinstance(item, StoredItem) else 0)
        fits = not number or total <= ANSWER_BYTES
        yield item, fits
        if not fits:
            return


def check_item_size(item: ItemPut) -> None:
    """Raise TooLargeError if the item is larger than ITEM_BYTES: no message could return it."""
    if (size := size_of(item)) > ITEM_BYTES:
        raise TooLargeError(
            f"The item has {size:,} bytes as JSON; {ITEM_BYTES:,} are allowed.",
            remedy="Store it in parts, each under its own key.",
        )
