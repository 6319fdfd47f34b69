"""What the tool `forget` answers: what was erased, and what was looked for afterwards."""

from datetime import datetime

import msgspec


class ErasureCheck(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Where it was looked for what was erased, and how much of it is still there.

    `note` says what is left to be done, and by whom.
    """

    name: str
    found: int
    note: str | None = None


class Receipt(msgspec.Struct, frozen=True, kw_only=True):
    """What was erased, by what people call it; of a dry run, what would be.

    `complete`: nothing was found afterwards. `may_come_back`: an import may store it again.
    """

    erased: dict[str, int]
    at: datetime
    dry_run: bool
    complete: bool
    may_come_back: bool
    checks: list[ErasureCheck] = []

    @property
    def total(self) -> int:
        return sum(self.erased.values())
