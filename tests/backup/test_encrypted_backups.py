"""Backups and restores of tenants with a key stay encrypted throughout."""

import asyncio
from pathlib import Path

import pytest
from msgspec.structs import replace

from backups import back_up, data_dir, generations, remember, restore_backup
from commands import answer, local2
from ledgers import erase, open_ledger
from local2.backup.sealing import Decrypter
from local2.content_key import ContentKey, KeyOf
from local2.errors import LedgerKeyError
from local2.ledger.erasing import Selection
from local2.protocol.envelope import utc_now
from local2.stack.app import open_stack
from local2.stack.ledgers import content_keys
from stacks import settings_in
from tenant_agents import ACCOUNTS, agent, token_for, with_tenants

pytest.importorskip("sqlcipher3")
DENSEST = "Osmium is the densest metal."
GALLIUM = "Gallium melts in a hand."
OWN = "tenants/acme/ledger.sqlite3"


def files_with(text: str, folder: Path) -> list[Path]:
    files = [file for file in folder.rglob("*") if file.is_file()]
    return [file for file in files if text.encode() in file.read_bytes()]


def key_in(folder: Path) -> ContentKey:
    return ContentKey.read(folder / ACCOUNTS / "acme" / "content.key")


async def count(folder: Path, key: ContentKey) -> int:
    async with open_ledger(settings_in(folder).memory, "acme", key) as ledger:
        return (await ledger.counts()).records


@pytest.fixture
async def key(tmp_path: Path) -> ContentKey:
    """Return the key of acme, whose three records are in its own file, the only ledger."""
    key = ContentKey.create(tmp_path / "acme.key")
    await remember(tmp_path, 0, 3, tenant="acme", key=key)
    return key


@pytest.fixture
def key_of(key: ContentKey) -> KeyOf:
    return {"acme": key}.get


@pytest.mark.usefixtures("worker_here")
async def test_an_encrypted_tenant_beside_a_plain_one_is_backed_up_while_the_stack_runs(
    tmp_path: Path,
) -> None:
    settings = with_tenants(tmp_path, "beta")
    assert local2(tmp_path, "tenants", "add", "acme", "--encrypt").returncode == 0
    async with open_stack(settings, log_folder=tmp_path, with_generator=False) as stack:
        for tenant, fact in (("acme", DENSEST), ("beta", GALLIUM)):
            token = token_for(tmp_path, tenant, "ada")
            async with agent(tmp_path, stack.url, tenant) as connected:
                args = {"content": fact, "scope": "user"}
                assert (await connected.call("remember_fact", args, token=token)).ok
        backup = await asyncio.to_thread(answer, tmp_path, "backup", "backups")
        assert (backup["ledgers"], backup["records"]) == (2, 2)
    backups, elsewhere = tmp_path / "backups", tmp_path / "elsewhere"
    assert files_with("Gallium", backups) != []
    assert files_with("Osmium", backups) == []

    restored = await asyncio.to_thread(
        local2, tmp_path, "restore", "backups", "--data-dir", str(data_dir(elsewhere))
    )
    assert restored.returncode == 0, restored.stderr
    assert "not read" not in restored.stderr
    assert files_with("Osmium", elsewhere) == []
    settings_elsewhere = replace(settings, memory=settings_in(elsewhere).memory)
    async with (
        open_stack(settings_elsewhere, log_folder=elsewhere, with_generator=False) as stack,
        agent(tmp_path, stack.url, "acme") as connected,
    ):
        token = token_for(tmp_path, "acme", "ada")
        found = await connected.call("recall", {"query": "the densest metal"}, token=token)
    assert DENSEST in found.content


@pytest.mark.usefixtures("worker_here")
async def test_a_backup_without_the_key_fails_with_the_reason(tmp_path: Path) -> None:
    settings = with_tenants(tmp_path)
    assert local2(tmp_path, "tenants", "add", "acme", "--encrypt").returncode == 0
    async with open_stack(settings, log_folder=tmp_path, with_generator=False):
        (tmp_path / ACCOUNTS / "acme" / "content.key").unlink()
        failed = await asyncio.to_thread(local2, tmp_path, "backup", "backups")

    assert failed.returncode == 1
    assert "the key of the tenant acme is missing" in " ".join(failed.stderr.split())
    assert not (tmp_path / "backups").exists()


async def test_the_first_ledger_may_be_an_encrypted_one(tmp_path: Path, key_of: KeyOf) -> None:
    back_up(tmp_path, tmp_path / "backups", key_of=key_of)
    await remember(tmp_path, 0, 2)
    back_up(tmp_path, tmp_path / "backups", key_of=key_of)

    manifests = [one.manifest(Decrypter()) for one in generations(tmp_path / "backups")]
    found = [[ledger.path for ledger in manifest.ledgers] for manifest in manifests]
    assert found == [[OWN], ["ledger.sqlite3", OWN]]


async def test_restoring_without_the_key_reports_what_was_not_read(
    tmp_path: Path, key: ContentKey, key_of: KeyOf
) -> None:
    back_up(tmp_path, tmp_path / "backups", key_of=key_of)
    elsewhere = tmp_path / "elsewhere"
    unread, forgotten = (await restore_backup(tmp_path / "backups", elsewhere)).warnings

    assert unread.startswith(f"{OWN} is unchanged")
    assert "the key of the tenant acme is missing" in unread
    assert "may be back" in forgotten
    assert await count(elsewhere, key) == 3


async def test_another_key_restores_nothing(tmp_path: Path, key_of: KeyOf) -> None:
    back_up(tmp_path, tmp_path / "backups", key_of=key_of)
    another = ContentKey.create(tmp_path / "another.key")

    with pytest.raises(LedgerKeyError, match="does not decrypt"):
        await restore_backup(
            tmp_path / "backups", tmp_path / "elsewhere", key_of={"acme": another}.get
        )
    assert not (data_dir(tmp_path / "elsewhere") / OWN).exists()


async def test_records_that_an_encrypted_tenant_forgot_since_are_erased_again(
    tmp_path: Path, key: ContentKey, key_of: KeyOf
) -> None:
    back_up(tmp_path, tmp_path / "backups", key_of=key_of)
    async with open_ledger(settings_in(tmp_path).memory, "acme", key) as ledger:
        await erase(ledger, Selection(owner="ada", id="r1"), at=utc_now())
    restored = await restore_backup(tmp_path / "backups", tmp_path, replace=True, key_of=key_of)

    assert (restored.forgotten, restored.warnings) == (1, [])
    assert await count(tmp_path, key) == 2


async def test_the_doctor_reads_every_ledger_and_names_the_one_without_its_key(
    tmp_path: Path,
) -> None:
    settings = await asyncio.to_thread(with_tenants, tmp_path, "beta")
    for tenant in ("acme", "gone"):
        await asyncio.to_thread(local2, tmp_path, "tenants", "add", tenant, "--encrypt")
    key_of = content_keys(settings)
    for tenant, notes in (("acme", 3), ("beta", 2), ("gone", 1)):
        await remember(tmp_path, 0, notes, tenant=tenant, key=key_of(tenant))
    (tmp_path / ACCOUNTS / "gone" / "content.key").unlink()

    found = {one["name"]: one for one in await asyncio.to_thread(checks, tmp_path)}
    assert found["ledger of acme"]["detail"].startswith("3 records")
    assert found["ledger of beta"]["detail"].startswith("2 records")
    assert found["ledger of gone"]["verdict"] == "broken"
    assert [found[f"whole ledger{of}"]["verdict"] for of in ("", " of acme")] == ["ok", "ok"]
    assert "whole ledger of beta" not in found  # it is in the shared ledger


def checks(folder: Path) -> list[dict[str, str]]:
    found: list[dict[str, str]] = answer(folder, "doctor", "--deep")
    return found
