"""Encodes places and sessions as words, in which tables and the full-text index have them.

A word consists of letters and digits only, so that it is one word of a full-text index.
"""

from collections.abc import Callable, Iterator

import msgspec

from local2.ledger.search import Place, Search
from local2.protocol.memories import PERSONAL

AFTER_HEX = "y"
"""It sorts after everything that a place word may contain."""


def place_word(tenant: str, place: Place) -> str:
    """The word for scope, owner and kind, as in the column `place`."""
    return "p" + _word(tenant, *place)


def place_of(word: str) -> Place:
    """The place that a word stands for."""
    _, scope, owner, kind, _ = word.split("x")
    names = (bytes.fromhex(part).decode() for part in (scope, owner, kind))
    return msgspec.convert(tuple(names), Place)


def session_word(tenant: str, search: Search) -> str | None:
    """The word for the session if only one session is searched, else None."""
    if search.only_session is None or {place.scope for place in search.places} != {"session"}:
        return None
    return "s" + _word(tenant, search.places[0].owner, search.only_session)


def owner_of(place: str) -> str:
    """The encoded owner in a place word."""
    return place.split("x")[2]


def users_of_places(tenant: str, next_place: Callable[[str, str], str | None]) -> Iterator[str]:
    """Yield the users with personal memories; `next_place` returns the first place word between."""
    for scope in PERSONAL:
        after = "p" + _word(tenant, scope)
        until = after + AFTER_HEX
        while (place := next_place(after, until)) is not None:
            owner = owner_of(place)
            yield bytes.fromhex(owner).decode()
            after = "p" + _word(tenant, scope) + owner + AFTER_HEX


def _word(*parts: str) -> str:
    return "".join(f"{part.encode().hex().upper()}x" for part in parts)
