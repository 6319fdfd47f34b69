"""Erases from a restored copy of a ledger what was erased since the copy was made.

Tombstones identify erased selections by keyed hashes. Every possible selection of a restored ledger
is hashed in the same way, and those that match are erased as if their owner had asked again.
"""

from collections import defaultdict
from datetime import datetime
from pathlib import Path

from local2.content_key import ContentKey
from local2.errors import StorageError
from local2.ledger.engines.sqlite.copies import ledger_key, rows_of
from local2.ledger.engines.sqlite.database import Database
from local2.ledger.erasing import ErasureOptions
from local2.ledger.ledger import Ledger


async def forget_again(restored: Path, former: Path, key: ContentKey | None) -> int:
    """Erase what was erased in the former ledger since the copy; return the number of records.

    `key` decrypts both ledgers.

    Raises:
        StorageError: The two are not the same ledger, or one of them cannot be read.
    """
    if ledger_key(restored, key) != ledger_key(former, key):
        raise StorageError(f"{former} is another ledger.")
    # By tenant and the hash of the selection, the time of the last erasure.
    later: dict[str, dict[str, datetime]] = defaultdict(dict)
    known = {(row["tenant"], row["digest"]) for row in rows_of(restored, "every_tombstone", key)}
    for row in rows_of(former, "every_tombstone", key):
        if (row["tenant"], row["digest"]) not in known:
            of_tenant, at = later[row["tenant"]], datetime.fromisoformat(row["erased_at"])
            of_tenant[row["chosen"]] = max(at, of_tenant.get(row["chosen"], at))
    if not later:
        return 0
    forgotten = 0
    async with Database.open(restored, key=key) as database:
        for tenant, chosen in later.items():
            ledger = Ledger(database, tenant)
            for selection, digest in await ledger.erasures.chosen_among(set(chosen)):
                selected = await ledger.erasures.select(selection)
                how = ErasureOptions(at=chosen[digest])
                async for part in ledger.erasures.erase(selection, selected.rows, how):
                    forgotten += len(part.rows)
            await ledger.erasures.scrub()
    return forgotten
