"""A tenant can store exactly up to its quota; reads and forgetting continue beyond it."""

import asyncio

import pytest

from exporting import fill, lines, parsed
from ledgers import DAY, OWNER, erase, fact, find, record, searching
from local2.errors import QuotaError
from local2.ledger.engines.sqlite.database import Database
from local2.ledger.erasing import Selection
from local2.ledger.ledger import Ledger
from local2.ledger.operations.imports import Importing
from local2.ledger.operations.sessions import SessionKey
from local2.ledger.records import Quota
from local2.protocol.payloads import OutputPart

KEY = "tout_" + "a" * 24
USAGE = """
SELECT (SELECT count(*) FROM record WHERE tenant = :tenant AND retired_why IS NOT 'erased'),
       (SELECT ifnull(sum(length(CAST(content AS BLOB))), 0) FROM record WHERE tenant = :tenant)
       + (SELECT ifnull(sum(length(CAST(content AS BLOB))), 0) FROM note WHERE tenant = :tenant)
       + (SELECT ifnull(sum(length(CAST(text AS BLOB))), 0) FROM tool_output WHERE tenant = :tenant)
       + (SELECT ifnull(sum(ifnull(length(value), 0) + ifnull(length(data), 0)), 0) FROM item
          WHERE tenant = :tenant)
"""


async def recorded_usage(ledger: Ledger) -> tuple[int, int]:
    """Return the recorded usage, which must equal a count."""
    noted = await ledger._rows.one("used")
    counted = await ledger._database.read(
        lambda c: c.execute(USAGE, {"tenant": ledger.tenant}).fetchone()
    )
    assert noted is not None
    assert tuple(noted) == tuple(counted)
    return int(noted["records"]), int(noted["bytes"])


async def test_the_recorded_usage_stays_exact_through_writes_and_forgetting(
    database: Database,
) -> None:
    ledger, other = Ledger(database, "default"), Ledger(database, "other")
    await other.records.store([record("Theirs.")])
    await fill(ledger)
    filled = await recorded_usage(ledger)
    assert filled > (1, 1)

    await erase(ledger, Selection(owner=OWNER))

    assert await recorded_usage(ledger) < filled
    assert await recorded_usage(other) == (1, len("Theirs."))


async def test_records_beyond_the_quota_are_refused_with_a_remedy(database: Database) -> None:
    ledger = Ledger(database, "default", Quota(records=2))
    await ledger.records.store([record("Osmium 1."), record("Osmium 2.")])

    with pytest.raises(QuotaError, match=r"may store 2 records.*Forget.*tenant_records"):
        await ledger.records.store([record("Osmium 3.")])

    assert (await find(ledger, searching("osmium"))).contents == {"Osmium 1.", "Osmium 2."}
    assert await recorded_usage(ledger) == (2, 18)


async def test_a_batch_stores_exactly_what_fits_while_others_write(database: Database) -> None:
    ledger, other = Ledger(database, "default", Quota(records=5)), Ledger(database, "other")
    writes = [ledger.records.store([record(f"Mine {n}.")]) for n in range(20)]
    theirs = [other.records.store([record(f"Theirs {n}.")]) for n in range(20)]

    mine = await asyncio.gather(*writes, return_exceptions=True)
    await asyncio.gather(*theirs)

    assert sum(isinstance(one, QuotaError) for one in mine) == 15
    assert (await recorded_usage(ledger))[0] == 5
    assert (await recorded_usage(other))[0] == 20


async def test_bytes_of_texts_notes_and_outputs_are_limited(database: Database) -> None:
    ledger = Ledger(database, "default", Quota(bytes=10))
    await ledger.records.store([record("äöü")])
    session = SessionKey(OWNER, "s1")

    with pytest.raises(QuotaError, match="10 bytes"):
        await ledger.records.store([record("12345")])
    with pytest.raises(QuotaError):
        await ledger.notes.store(session, "user", "12345", DAY, merge=lambda _: None)
    with pytest.raises(QuotaError):
        await ledger.outputs.store(OWNER, OutputPart(key=KEY, offset=0, text="12345"))
    await ledger.notes.store(session, "user", "1234", DAY, merge=lambda _: None)

    assert await recorded_usage(ledger) == (1, 10)


async def test_a_full_tenant_acknowledges_records_that_it_already_has(database: Database) -> None:
    ledger = Ledger(database, "default", Quota(records=1))
    mine = record("Osmium.")
    await ledger.records.store([mine])

    (again,) = await ledger.records.store([mine])

    assert not again.was_new


async def test_a_fact_that_does_not_fit_does_not_replace_the_older_one(
    database: Database,
) -> None:
    ledger = Ledger(database, "default", Quota(records=1))
    await ledger.facts.store(fact("Elixir.", topic="user.language"))

    with pytest.raises(QuotaError):
        await ledger.facts.store(fact("Python.", topic="user.language"))

    standing = await ledger.facts.topic("user", OWNER, "user.language")
    assert standing is not None
    assert standing.content == "Elixir."


async def test_forgetting_makes_room(database: Database) -> None:
    ledger = Ledger(database, "default", Quota(records=1, bytes=9))
    await ledger.records.store([record("Osmium 1.")])

    await erase(ledger, Selection(owner=OWNER))
    await ledger.records.store([record("Osmium 2.")])

    assert await recorded_usage(ledger) == (1, 9)


async def test_an_import_ends_where_the_tenant_is_full(database: Database) -> None:
    source, ledger = Ledger(database, "source"), Ledger(database, "default", Quota(records=3))
    await fill(source)

    with pytest.raises(QuotaError):
        await ledger.imports.store(
            parsed(await lines(source)), Importing(user=OWNER, agent=None, at=DAY)
        )

    assert (await ledger.counts()).records == 0
