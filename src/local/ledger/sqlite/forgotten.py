"""What was erased on request since a backup was made is erased from the restored ledger, too.

Tombstones say by keyed hashes what was chosen. Whatever of the restored ledger could have been
chosen is hashed in the same way, and what is found is erased as if its owner asked again.
"""

from collections import defaultdict
from collections.abc import Mapping
from datetime import datetime
from pathlib import Path

from local.content_key import ContentKey
from local.errors import StorageError
from local.ledger.erasures import Lifting
from local.ledger.sqlite.copies import ledger_key, rows_of
from local.ledger.sqlite.database import Database
from local.ledger.sqlite.ledger import Ledger
from local.ledger.sqlite.sql import migrations

Chosen = Mapping[str, datetime]
"""Hashes of what was chosen, with the time of its last erasure."""


async def forget_again(restored: Path, former: Path, key: ContentKey | None) -> int:
    """Erase what the former ledger had erased since; returns how many records that were.

    The key of encrypted ledgers is one for both.

    Raises:
        StorageError: They have not one key, or one of them cannot be read.
    """
    if ledger_key(restored, key) != ledger_key(former, key):
        raise StorageError(f"{former} is another ledger.")
    later = _later(restored, former, key)
    if not later:
        return 0
    async with Database.open(restored, migrations(), key=key) as database:
        return sum([await _of_tenant(Ledger(database, name), later[name]) for name in later])


def _later(restored: Path, former: Path, key: ContentKey | None) -> dict[str, Chosen]:
    """By tenants, what the former ledger has tombstones of and the restored one has not."""
    known = {(row["tenant"], row["digest"]) for row in rows_of(restored, "every_tombstone", key)}
    later: dict[str, dict[str, datetime]] = defaultdict(dict)
    for row in rows_of(former, "every_tombstone", key):
        if (row["tenant"], row["digest"]) not in known:
            of_tenant, at = later[row["tenant"]], datetime.fromisoformat(row["erased_at"])
            of_tenant[row["chosen"]] = max(at, of_tenant.get(row["chosen"], at))
    return dict(later)


async def _of_tenant(ledger: Ledger, chosen: Chosen) -> int:
    forgotten = 0
    for selection, digest in await ledger.erasures.chosen_among(set(chosen)):
        selected = await ledger.erasures.select(selection)
        how = Lifting(at=chosen[digest])
        async for part in ledger.erasures.erase(selection, selected.rows, how):
            forgotten += len(part.rows)
    await ledger.erasures.scrub()
    return forgotten
