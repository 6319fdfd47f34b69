"""A server that the stack does not run must have the accounts, and may learn of them late."""

import asyncio
from pathlib import Path

import msgspec
import nats.errors
import pytest

from commands import in_a_fork
from local2.bus.server import embedded_server
from local2.errors import ConfigError
from local2.logs import logging_to
from local2.protocol.memory_tools import TOOL_NAMES
from local2.settings import BusSettings, RolesSettings
from local2.stack.app import open_stack
from local2.tenants.accounts import accounts
from local2.tenants.directory import Directory, Entries, Roles
from tenant_agents import ACCOUNTS, agent, with_tenants
from waiting import eventually

HELLO = b'{"query": "Hello"}'

pytestmark = pytest.mark.usefixtures("worker_here")


def configured(folder: Path) -> str:
    entries = Entries.read(folder / ACCOUNTS)
    assert entries is not None
    return accounts(entries, TOOL_NAMES)


async def test_a_server_without_the_accounts_is_refused(tmp_path: Path) -> None:
    settings = with_tenants(tmp_path, "acme")
    async with embedded_server(tmp_path / "bus", host="127.0.0.1", port=-1) as server:
        own = msgspec.structs.replace(settings.bus, url=server.url)
        with pytest.raises(ConfigError, match="does not have the accounts") as refused:
            async with open_stack(msgspec.structs.replace(settings, bus=own)):
                pass
    assert "server-config" in str(refused.value)


async def test_a_tenant_is_served_once_the_server_knows_its_account(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings = with_tenants(tmp_path, "acme")
    known_accounts, log = configured(tmp_path), tmp_path / "log"
    async with embedded_server(
        tmp_path / "bus", host="127.0.0.1", port=-1, accounts=lambda: known_accounts
    ) as server:
        monkeypatch.setenv("LOCAL2_BUS__URL", server.url)
        own = BusSettings(url=server.url, accounts=tmp_path / ACCOUNTS)
        stack = open_stack(msgspec.structs.replace(settings, bus=own))
        with logging_to(log):
            async with stack:
                await asyncio.to_thread(in_a_fork, tmp_path, "tenants", "add", "beta")
                await eventually(lambda: "tenant_not_opened" in log.read_text())
                known_accounts = configured(tmp_path)
                await server.reload()
                async with agent(tmp_path, server.url, "beta") as newcomer:

                    async def is_answered() -> bool:
                        try:
                            answer = await newcomer.client.request(
                                "query.received", HELLO, timeout=5
                            )
                        except nats.errors.Error:
                            return False
                        return b'"ok":true' in answer.data

                    await eventually(is_answered, within=20)


async def test_accounts_of_an_earlier_version_cost_a_warning_and_not_the_answers(
    tmp_path: Path,
) -> None:
    settings, log = with_tenants(tmp_path, "acme"), tmp_path / "log"
    former = configured(tmp_path).replace(', "query.running"]', "]")
    async with embedded_server(
        tmp_path / "bus", host="127.0.0.1", port=-1, accounts=lambda: former
    ) as server:
        own = BusSettings(url=server.url, accounts=tmp_path / ACCOUNTS)
        with logging_to(log):
            async with (
                open_stack(msgspec.structs.replace(settings, bus=own)),
                agent(tmp_path, server.url, "acme") as asking,
            ):
                answer = await asking.client.request("query.received", HELLO, timeout=20)

    warnings = [line for line in log.read_text().splitlines() if "query.running" in line]
    assert b'"ok":true' in answer.data
    assert len(warnings) == 1
    assert "local2 tenants server-config" in warnings[0]


async def test_nothing_of_other_tenants_goes_on_when_one_cannot_be_started(tmp_path: Path) -> None:
    settings = with_tenants(tmp_path, "acme", "beta", "gamma")
    (tmp_path / ACCOUNTS / "acme" / "generator.nk").write_text("no seed")
    before = asyncio.all_tasks()
    with pytest.raises(ConfigError, match="no valid credentials"):
        async with open_stack(settings):
            pass

    assert asyncio.all_tasks() == before


def test_a_change_of_the_tenants_while_they_are_read_is_read_later(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = with_tenants(tmp_path, "acme").bus.accounts
    read = Entries.read

    def read_before_a_change(folder: Path) -> Entries | None:
        entries = read(folder)
        assert entries is not None
        msgspec.structs.replace(entries, tenants={}).write(folder)
        return entries

    monkeypatch.setattr(Entries, "read", read_before_a_change)
    directory = Directory.open(folder, Roles(RolesSettings()))
    monkeypatch.setattr(Entries, "read", read)

    assert directory is not None
    assert directory.reload_if_changed()
    assert not directory.entries.tenants
