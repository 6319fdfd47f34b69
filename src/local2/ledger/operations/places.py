"""Encodes places and sessions as words, in which tables and the full-text index have them.

A word consists of letters and digits only, so that it is one word of a full-text index.
"""

from collections.abc import Callable, Iterator
from typing import get_args

from local2.ledger.search import Place, Search
from local2.protocol.memories import PERSONAL, Kind, OwnerScope

AFTER_HEX = "y"
"""It sorts after everything that a place word may contain."""
_SCOPES: dict[str, OwnerScope] = {scope[:1]: scope for scope in get_args(OwnerScope)}
_KINDS: dict[str, Kind] = {kind[:2]: kind for kind in get_args(Kind)}


def place_word(tenant: str, place: Place) -> str:
    """The word for scope, owner and kind, as in the column `place`."""
    return f"p{_word(tenant)}{place.scope[:1]}{_hex(place.owner)}{place.kind[:2]}x"


def place_of(word: str) -> Place:
    """The place that a word stands for."""
    _, place, _ = word.split("x")
    owner = bytes.fromhex(place[1:-2]).decode()
    return Place(_SCOPES[place[:1]], owner, _KINDS[place[-2:]])


def session_word(tenant: str, search: Search) -> str | None:
    """The word for the session if only one session is searched, else None."""
    if search.only_session is None or {place.scope for place in search.places} != {"session"}:
        return None
    return "s" + _word(tenant, search.places[0].owner, search.only_session)


def owner_of(place: str) -> str:
    """The encoded owner in a place word."""
    return place.split("x")[1][1:-2]


def users_of_places(tenant: str, next_place: Callable[[str, str], str | None]) -> Iterator[str]:
    """Yield the users with personal memories; `next_place` returns the first place word between."""
    for scope in PERSONAL:
        after = first = f"p{_word(tenant)}{scope[:1]}"
        until = first + AFTER_HEX
        while (place := next_place(after, until)) is not None:
            owner = owner_of(place)
            yield bytes.fromhex(owner).decode()
            after = first + owner + AFTER_HEX


def _word(*parts: str) -> str:
    return "".join(f"{_hex(part)}x" for part in parts)


def _hex(text: str) -> str:
    return text.encode().hex().upper()
