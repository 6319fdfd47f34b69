"""A tenant with a key: its content is in a separate file, unreadable without the key."""

from pathlib import Path

import pytest
from msgspec.structs import replace

from commands import local2
from local2.settings import BusSettings
from local2.stack.app import open_stack
from stacks import settings_in
from tenant_agents import ACCOUNTS, agent, token_for

pytest.importorskip("sqlcipher3")
TREASURE = "The treasure lies under the old oak."


@pytest.mark.usefixtures("worker_here")
async def test_memories_of_a_tenant_with_a_key_are_nowhere_in_plain_text(tmp_path: Path) -> None:
    assert local2(tmp_path, "tenants", "init", "--encrypt").returncode == 0
    assert local2(tmp_path, "tenants", "add", "acme", "--encrypt").returncode == 0
    assert local2(tmp_path, "tenants", "add", "beta").returncode == 0
    settings = replace(settings_in(tmp_path), bus=BusSettings(accounts=tmp_path / ACCOUNTS))
    fact = {"content": TREASURE, "scope": "user"}
    for round_ in range(2):
        async with open_stack(settings, log_folder=tmp_path, with_generator=False) as stack:
            for tenant in ("acme", "beta"):
                token = token_for(tmp_path, tenant, "ada")
                async with agent(tmp_path, stack.url, tenant) as connected:
                    if round_ == 0 and tenant == "acme":
                        assert (await connected.call("remember_fact", fact, token=token)).ok
                    args = {"query": "Where is the treasure?"}
                    found = (await connected.call("recall", args, token=token)).content
                    assert ("old oak" in found) is (tenant == "acme")
    files = [one for one in tmp_path.rglob("*") if one.is_file()]
    assert [one for one in files if b"old oak" in one.read_bytes()] == []
    assert (tmp_path / ".local2" / "tenants" / "acme" / "ledger.sqlite3").exists()
