"""Nothing outlives a transaction on a connection, so that pgbouncer may pool transactions."""

from ledgers import find, index, message, searching, vector_result
from local2.ledger.engines.postgres.database import PREPARED, Database
from local2.ledger.ledger import Ledger

KEPT = b"""
SELECT coalesce(current_setting('local2.tenant', true), '') AS tenant,
       coalesce(current_setting('hnsw.ef_search', true), '') IN ('', '40') AS searches_as_usual,
       (SELECT count(*) FROM pg_locks WHERE locktype = 'advisory') AS locks,
       (SELECT count(*) FROM pg_listening_channels()) AS channels,
       (SELECT count(*) FROM pg_prepared_statements WHERE from_sql) AS prepared_by_sql,
       (SELECT count(*) FROM pg_prepared_statements) <= %(prepared)s AS prepared_few
"""


async def test_a_connection_keeps_no_state_of_a_session(here: Database, ledger: Ledger) -> None:
    for number in range(3):
        await ledger.records.store([message(f"Gold {number}.")])
    await index(ledger, {"Gold 0.": 0})
    await find(ledger, searching("gold"), vector_result(0))

    for connection in here._idle.queue:
        kept = connection.raw.execute(KEPT, {"prepared": len(PREPARED)}).fetchone()
        assert kept is not None
        assert tuple(kept) == ("", True, 0, 0, 0, True)
