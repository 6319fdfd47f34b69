"""How much one tenant may store."""

import msgspec


class Quota(msgspec.Struct, frozen=True, kw_only=True):
    """Records that are not erased, and bytes: of texts, notes, outputs and items; 0: any."""

    records: int = 0
    bytes: int = 0


UNLIMITED = Quota()
