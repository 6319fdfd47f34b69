"""Items on the wire: what a framework stores exactly, under a namespace and a key.

A namespace is a path: `["users", "ada"]` holds what `["users", "ada", "drafts"]` holds, too. Each
application has its own collection, and its items never appear in another's.
"""

from collections.abc import Iterable, Iterator, Sequence
from datetime import datetime
from typing import Annotated, Literal, TypeVar

import msgspec

from local.errors import TooLargeError
from local.protocol.payloads import Json

ITEM_BYTES = 600_000
"""Of an item as JSON: with its envelope it fits into a message of 1 MB, as does an answer of it."""
ANSWER_BYTES = ITEM_BYTES
"""Bytes of the items of one answer, without the first."""
PLACE_BYTES = 500
"""Bytes of an item's namespace, key and times, approximately."""
AT_ONCE = 1_000
"""Items in one request: they are stored in one transaction, behind which others' saves wait."""
MOST = 10_000
"""Items, or namespaces, that are asked for at once."""
INDEXED = 10_000
"""Characters of an item's text that searches find it by: an embedder reads fewer."""

Collection = Annotated[str, msgspec.Meta(pattern=r"^[a-z0-9][a-z0-9._-]{0,63}$")]
Part = Annotated[str, msgspec.Meta(max_length=1024)]
Namespace = Annotated[tuple[Part, ...], msgspec.Meta(max_length=32)]
Key = Annotated[str, msgspec.Meta(max_length=1024)]
Limit = Annotated[int, msgspec.Meta(ge=0, le=MOST)]
Offset = Annotated[int, msgspec.Meta(ge=0, lt=2**53)]

NOTHING = msgspec.Raw(b"null")


class ItemKey(msgspec.Struct, frozen=True, kw_only=True):
    """The place of an item."""

    namespace: Namespace
    key: Key


class ItemPut(ItemKey, frozen=True, kw_only=True, omit_defaults=True):
    """An item to store; one without value and data is deleted.

    `text` is what a search by meaning and words finds it by. `keep`: an existing item stays as it
    is.
    """

    value: msgspec.Raw = NOTHING
    data: bytes | None = None
    text: str | None = None
    keep: bool = False

    @property
    def deletes(self) -> bool:
        return self.data is None and bytes(self.value) == bytes(NOTHING)


class StoredItem(ItemKey, frozen=True, kw_only=True, omit_defaults=True):
    """An item as it is stored. `score`, from 0 to 1, is set if a search found it by its text."""

    created_at: datetime
    updated_at: datetime
    value: msgspec.Raw = NOTHING
    data: bytes | None = None
    score: float | None = None


class PutItems(msgspec.Struct, kw_only=True):
    """`memory.items.put`: all are stored, or none."""

    collection: Collection
    items: Annotated[list[ItemPut], msgspec.Meta(max_length=AT_ONCE)]


class GetItems(msgspec.Struct, kw_only=True):
    """`memory.items.get`: exactly these."""

    collection: Collection
    keys: Annotated[list[ItemKey], msgspec.Meta(max_length=AT_ONCE)]


class SearchItems(msgspec.Struct, kw_only=True, omit_defaults=True):
    """`memory.items.search`: the items of a namespace and all within it, the newest first.

    With a `query`, the items that match its meaning come first, the best one before all. `filter`
    compares their values by name: with a value that each must equal, or with `$eq`, `$ne`, `$gt`,
    `$gte`, `$lt` and `$lte`. `exact`: only the items of the namespace itself, by their keys, the
    last first, and with `before` only those of lesser keys.
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
    """The beginning or end of a namespace; `*` stands for any part."""

    type: Literal["prefix", "suffix"]
    path: Namespace


class ListNamespaces(msgspec.Struct, kw_only=True, omit_defaults=True):
    """`memory.items.list`: namespaces that hold items and match, cut to a depth, in their order."""

    collection: Collection
    matches: Annotated[tuple[NamespaceMatch, ...], msgspec.Meta(max_length=8)] = ()
    depth: Annotated[int, msgspec.Meta(ge=1)] | None = None
    limit: Limit = 100
    offset: Offset = 0


class DeleteItems(msgspec.Struct, kw_only=True, omit_defaults=True):
    """`memory.items.delete`: these, and all of these namespaces and within them, at once."""

    collection: Collection
    keys: Annotated[list[ItemKey], msgspec.Meta(max_length=AT_ONCE)] = []
    namespaces: Annotated[list[Namespace], msgspec.Meta(max_length=AT_ONCE)] = []


class ItemsChanged(msgspec.Struct, kw_only=True):
    """The answer to `put` and `delete`: how many items were stored, and how many deleted."""

    stored: int = 0
    deleted: int = 0


class ItemsGot(msgspec.Struct, kw_only=True):
    """The answer to `get`: for each key in turn its item, or null.

    They are as many as one message holds: if there are fewer than keys, ask again for the rest.
    """

    items: list[StoredItem | None]


class ItemsFound(msgspec.Struct, kw_only=True, omit_defaults=True):
    """The answer to `search`. `cut`: a message holds no more of the items.

    `degraded`: some could be found by their words only; `reason` is why.
    """

    items: list[StoredItem] = []
    cut: bool = False
    degraded: bool = False
    reason: str | None = None


class NamespacesFound(msgspec.Struct, kw_only=True):
    """The answer to `list`."""

    namespaces: list[tuple[str, ...]] = []


def path_text(parts: Sequence[str]) -> str:
    """Return a namespace as one text: the prefix of the texts of all within it, and of no other.

    Each part is JSON with a comma behind it, so that no part can extend into the next.
    """
    return "".join(f"{msgspec.json.encode(part).decode()}," for part in parts)


def path_of(text: str) -> tuple[str, ...]:
    """Return the namespace that a text stands for."""
    return msgspec.json.decode(f"[{text.removesuffix(',')}]", type=tuple[str, ...])


def size_of(item: ItemPut | StoredItem) -> int:
    """Return its bytes as JSON, without its place."""
    return len(bytes(item.value)) + len(item.data or b"") * 4 // 3


F = TypeVar("F", bound=StoredItem | None)


def fitting(items: Iterable[F]) -> Iterator[tuple[F, bool]]:
    """Yield the items up to the first that an answer does not hold, each with whether it does.

    An answer holds at least one. Items after it are not read.
    """
    total = 0
    for number, item in enumerate(items):
        total += PLACE_BYTES + (size_of(item) if isinstance(item, StoredItem) else 0)
        fits = not number or total <= ANSWER_BYTES
        yield item, fits
        if not fits:
            return


def check_size(item: ItemPut) -> None:
    """Refuse an item that no message could return.

    Raises:
        TooLargeError: It is larger than ITEM_BYTES.
    """
    if (size := size_of(item)) > ITEM_BYTES:
        raise TooLargeError(
            f"The item has {size:,} bytes as JSON; {ITEM_BYTES:,} are taken.",
            remedy="Store it in parts, under a key each.",
        )
