"""A tenant whose closing fails keeps no other one open."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from commands import in_a_fork
from local2.ledger.ledger import Ledger
from local2.logs import logging_to
from local2.stack.app import open_stack
from local2.stack.ledgers import Ledgers
from tenant_agents import with_tenants
from waiting import eventually

pytestmark = pytest.mark.usefixtures("worker_here")


@pytest.fixture
def closed(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The tenants whose ledgers were closed, in order; this fails where the name says so."""
    tenants: list[str] = []
    opened = Ledgers.open

    @asynccontextmanager
    async def open_until_it_fails(self: Ledgers, tenant: str) -> AsyncIterator[Ledger]:
        async with opened(self, tenant) as ledger:
            yield ledger
        tenants.append(tenant)
        if tenant.startswith("fails"):
            raise OSError(f"{tenant}: the disk is gone")

    monkeypatch.setattr(Ledgers, "open", open_until_it_fails)
    return tenants


async def test_at_the_end_all_are_closed_and_each_failure_is_logged(
    tmp_path: Path, closed: list[str]
) -> None:
    names = ["acme", "fails1", "beta", "fails2", "gamma"]
    settings, log = with_tenants(tmp_path, *names), tmp_path / "log"
    with logging_to(log), pytest.raises(OSError, match="the disk is gone"):
        async with open_stack(settings):
            pass

    assert sorted(closed) == sorted(names)
    assert log.read_text().count("tenant_not_closed") == 2


async def test_a_removed_one_that_cannot_be_closed_does_not_keep_the_next_one(
    tmp_path: Path, closed: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    settings = with_tenants(tmp_path, "fails", "acme", "beta")
    async with open_stack(settings) as stack:
        monkeypatch.setenv("LOCAL2_BUS__URL", stack.url)
        await asyncio.to_thread(in_a_fork, tmp_path, "tenants", "remove", "fails")
        await eventually(lambda: closed == ["fails"])
        await asyncio.to_thread(in_a_fork, tmp_path, "tenants", "remove", "acme")
        await eventually(lambda: closed == ["fails", "acme"])

    assert closed == ["fails", "acme", "beta"]
