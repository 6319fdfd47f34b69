"""How much one tenant may store."""

import msgspec


class Quota(msgspec.Struct, frozen=True, kw_only=True):
    """Records that are not erased, and bytes of their texts, of notes and of outputs; 0: any."""

    records: int = 0
    bytes: int = 0


UNLIMITED = Quota()
