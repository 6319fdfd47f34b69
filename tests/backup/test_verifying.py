"""A backup is read whole beside a running stack: what is damaged is told ledger by ledger."""

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from backup.conftest import CopyNotes
from backups import back_up, data_dir, generations, plain, remember
from harm import flip
from local2.backup.sealing import Decrypter
from local2.backup.verifying import verify_backup
from local2.content_key import ContentKey, KeyOf
from local2.errors import BackupError, LedgerKeyError, StorageError
from local2.home import folder_lock
from local2.ledger.engines.sqlite import copies
from local2.ledger.engines.sqlite.schema import SCHEMA
from local2.protocol.maintenance import VerifiedBackup

NOTES = 20
LEDGER = "ledger.sqlite3"
OF_ACME = f"tenants/acme/{LEDGER}"


@pytest.fixture
def folder(copy_notes: CopyNotes, tmp_path: Path) -> Path:
    copy_notes(NOTES, tmp_path)
    return tmp_path


@pytest.fixture
def backups(folder: Path) -> Path:
    back_up(folder, folder / "backups")
    return folder / "backups"


def verify(
    backups: Path,
    folder: Path,
    *,
    generation: str | None = None,
    identity: Path | None = None,
    key_of: KeyOf = plain,
) -> VerifiedBackup:
    return verify_backup(
        backups,
        generation,
        data_dir=data_dir(folder),
        opener=Decrypter(identity),
        key_of=key_of,
    )


def left_in(folder: Path) -> list[Path]:
    return list(data_dir(folder).glob("*.part"))


def test_a_backup_is_read_whole_while_a_stack_holds_the_lock(folder: Path, backups: Path) -> None:
    with folder_lock(data_dir(folder)):
        verified = verify(backups, folder)

    (ledger,) = verified.ledgers
    assert not verified.damaged
    assert (ledger.path, ledger.records, ledger.damage, ledger.unread) == (
        LEDGER,
        NOTES,
        None,
        None,
    )
    assert ledger.pieces == len(list((backups / verified.generation / "pieces").iterdir()))
    assert left_in(folder) == []


def test_reading_a_backup_where_no_memory_is_leaves_no_data_folder(
    folder: Path, backups: Path
) -> None:
    elsewhere = folder / "elsewhere"
    elsewhere.mkdir()

    assert not verify(backups, elsewhere).damaged
    assert list(elsewhere.iterdir()) == []


@pytest.mark.parametrize(
    ("harm", "why"),
    [
        pytest.param(lambda piece: flip(piece, 100), "a piece is damaged", id="a changed byte"),
        pytest.param(Path.unlink, "cannot be read: No such file", id="a missing piece"),
        pytest.param(lambda piece: piece.write_bytes(b""), "a piece is damaged", id="emptied"),
    ],
)
async def test_damage_is_told_and_an_earlier_backup_is_named_to_be_read(
    folder: Path, backups: Path, harm: Callable[[Path], object], why: str
) -> None:
    earlier = generations(backups)[-1].path.name
    await remember(folder, NOTES, 2 * NOTES)
    back_up(folder, backups)
    shared = {piece.name for piece in (backups / earlier / "pieces").iterdir()}
    pieces = (generations(backups)[-1].path / "pieces").iterdir()
    harm(next(piece for piece in pieces if piece.name not in shared))

    verified = verify(backups, folder)

    assert verified.damaged
    assert why in str(verified.ledgers[0].damage)
    assert not verify(backups, folder, generation=earlier).damaged
    assert left_in(folder) == []


async def test_the_other_ledgers_of_a_damaged_backup_are_read_too(tmp_path: Path) -> None:
    key = ContentKey.create(tmp_path / "acme.key")
    await remember(tmp_path, 0, 3)
    await remember(tmp_path, 0, 4, tenant="acme", key=key)
    back_up(tmp_path, tmp_path / "backups", key_of={"acme": key}.get)
    (taken,) = generations(tmp_path / "backups")
    shared, _ = taken.manifest(Decrypter()).ledgers
    flip(taken.path / "pieces" / shared.pieces[0], 100)

    verified = verify(tmp_path / "backups", tmp_path, key_of={"acme": key}.get)

    found = [(one.path, one.records, one.damage is None) for one in verified.ledgers]
    assert found == [(LEDGER, 3, False), (OF_ACME, 4, True)]


async def test_a_ledger_without_its_key_is_told_to_be_read_in_part(tmp_path: Path) -> None:
    key, another = (ContentKey.create(tmp_path / f"{name}.key") for name in ("acme", "another"))
    await remember(tmp_path, 0, 3, tenant="acme", key=key)
    back_up(tmp_path, tmp_path / "backups", key_of={"acme": key}.get)

    verified = verify(tmp_path / "backups", tmp_path)

    assert not verified.damaged
    assert "the key of the tenant acme is missing" in str(verified.ledgers[0].unread)
    with pytest.raises(LedgerKeyError, match="does not decrypt"):
        verify(tmp_path / "backups", tmp_path, key_of={"acme": another}.get)


def test_a_ledger_with_fewer_records_than_were_backed_up_is_damaged(
    folder: Path, backups: Path
) -> None:
    manifest = generations(backups)[-1].path / "manifest.json"
    text = manifest.read_text()
    manifest.write_text(text.replace(f'"records":{NOTES}', f'"records":{NOTES + 1}'))

    (ledger,) = verify(backups, folder).ledgers

    assert f"has {NOTES} records, but the backup should have {NOTES + 1}" in str(ledger.damage)


def test_what_says_nothing_about_the_backup_is_no_damage(
    folder: Path, backups: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as full:
        full.setattr(copies, "RESERVE", 1 << 60)
        with pytest.raises(StorageError, match="MB are needed"):
            verify(backups, folder)
    with monkeypatch.context() as newer:
        another = SCHEMA._replace(number=SCHEMA.number + 1)
        newer.setattr("local2.ledger.engines.sqlite.copies.SCHEMA", another)
        with pytest.raises(StorageError, match="Restore it with that one"):
            verify(backups, folder)
    (generations(backups)[-1].path / "manifest.json").write_bytes(b"{")
    with pytest.raises(BackupError, match=r"manifest\.json is damaged"):
        verify(backups, folder)


def test_copies_of_a_killed_process_are_removed_and_those_of_a_living_one_stay(
    folder: Path, backups: Path
) -> None:
    ended = subprocess.Popen([sys.executable, "-c", ""])
    ended.wait()
    for process in (ended.pid, os.getppid()):
        (data_dir(folder) / f"verify-{process}.part").mkdir()

    verify(backups, folder)

    assert [one.name for one in left_in(folder)] == [f"verify-{os.getppid()}.part"]
