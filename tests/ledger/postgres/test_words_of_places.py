"""Words are searched in the places that are asked for, however many others have them."""

import pytest

from ledgers import find, record, searching
from local2.ledger.engines.postgres import fulltext
from local2.ledger.ledger import Ledger
from local2.ledger.operations import working_sets


async def test_newer_records_of_others_do_not_hide_ones_own(
    ledger: Ledger, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(working_sets, "MAX_RECORDS", -1)
    monkeypatch.setattr(fulltext, "SCORED", 5)
    await ledger.records.store([record("Gold.")])
    await ledger.records.store([record(f"Gold of Eve {n}.", owner="eve") for n in range(20)])

    assert (await find(ledger, searching("gold"))).contents == {"Gold."}
