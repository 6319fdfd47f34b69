"""Places and sessions as words, in the columns `place` and `session_place` and in the full text."""

from local.ledger.search import Place, Search


def place_word(tenant: str, place: Place) -> str:
    """The word for whose record of which kind it is; the column `place` is made the same way."""
    return "p" + _word(tenant, *place)


def session_word(tenant: str, search: Search) -> str | None:
    """The word for the session, where nothing but one session is searched."""
    if search.only_session is None or {place.scope for place in search.places} != {"session"}:
        return None
    return "s" + _word(tenant, search.places[0].owner, search.only_session)


def owner_of(place: str) -> str:
    """Whose place it is, in its own opaque word."""
    return place.split("x")[2]


def _word(*parts: str) -> str:
    return "".join(f"{part.encode().hex().upper()}x" for part in parts)
