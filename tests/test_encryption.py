"""Data of a tenant with a key is readable only with that key; without it the error says so."""

import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import pytest

from harm import flip
from ledgers import open_ledger
from local2 import examination
from local2.bus.server import EmbeddedServer, embedded_server
from local2.client import connect
from local2.client.tools import call_tool
from local2.content_key import ContentKey
from local2.errors import DamagedError, LedgerKeyError, UnwritableError
from local2.ledger.engines.sqlite.connections import connect_encrypted
from local2.ledger.records import NewRecord
from local2.protocol.envelope import utc_now
from local2.protocol.maintenance import CheckResult
from local2.settings import Settings
from local2.stack.app import open_stack
from local2.stack.ledgers import ledger_path
from stacks import CALLER, in_step, save, search, settings_in

MARK = "xylophonemark"
RECORDS = 200
OWN = Path("tenants", "default")
LOG = "ledger.sqlite3-wal"
EARLY = 20_000
"""Offset in bytes in the log, before its last commits."""


@pytest.fixture
def key(tmp_path: Path) -> ContentKey:
    return ContentKey.create(tmp_path / "content.key")


@pytest.fixture
def settings(tmp_path: Path, key: ContentKey) -> Settings:
    assert key is not None
    return settings_in(tmp_path, content_key_file=tmp_path / "content.key")


async def fill(settings: Settings, key: ContentKey | None, records: int = RECORDS) -> None:
    """Add records, one per transaction; copy the files to `killed` as a kill would leave them."""
    folder = settings.memory.data_dir
    folder.mkdir(exist_ok=True)
    async with open_ledger(settings.memory, "default", key) as ledger:
        for number in range(records):
            content = f"Note {number} is about the {MARK} {number * 7}."
            note = NewRecord(id=f"r{number}", kind="episode", content=content, event_time=utc_now())
            await ledger.records.store([note])
        shutil.copytree(folder, folder.parent / "killed")


async def records_of(settings: Settings, key: ContentKey | None) -> int:
    async with open_ledger(settings.memory, "default", key) as ledger:
        return (await ledger.counts()).records


async def examine(settings: Settings) -> dict[str, CheckResult]:
    return {one.name: one for one in await examination.run_checks(settings, deep=True)}


def files_with(text: bytes, folder: Path) -> list[str]:
    files = [file for file in folder.rglob("*") if file.is_file()]
    assert files
    return [file.name for file in files if text in file.read_bytes()]


async def test_no_file_of_an_encrypted_ledger_holds_plain_text(
    settings: Settings, key: ContentKey, tmp_path: Path
) -> None:
    await fill(settings, key)

    for folder in (tmp_path / "killed", settings.memory.data_dir):
        assert files_with(MARK.encode(), folder) == []
    assert {file.name for file in (tmp_path / "killed" / OWN).iterdir()} >= {
        "ledger.sqlite3",
        LOG,
    }
    assert await records_of(settings, key) == RECORDS


async def test_the_same_search_finds_the_text_of_an_unencrypted_ledger(tmp_path: Path) -> None:
    """Otherwise the test above would prove nothing."""
    await fill(settings_in(tmp_path), None, 3)

    assert files_with(MARK.encode(), tmp_path / "killed") != []


async def test_another_key_is_refused_and_the_data_stays(
    settings: Settings, key: ContentKey, tmp_path: Path
) -> None:
    await fill(settings, key, 3)

    with pytest.raises(LedgerKeyError, match="does not decrypt") as refused:
        await records_of(settings, ContentKey.create(tmp_path / "another.key"))

    assert "Replace it with the key of this ledger" in str(refused.value.remedy)
    assert await records_of(settings, key) == 3


async def test_a_missing_key_setting_is_refused_and_no_empty_memory_is_created(
    settings: Settings, key: ContentKey
) -> None:
    await fill(settings, key, 3)

    with pytest.raises(LedgerKeyError, match="no key is configured") as refused:
        await records_of(settings, None)

    assert "content_key_file" in str(refused.value.remedy)
    assert not ledger_path(settings.memory, "default").exists()


async def test_a_key_for_an_unencrypted_memory_is_refused(
    settings: Settings, key: ContentKey
) -> None:
    await fill(settings, None, 3)

    with pytest.raises(LedgerKeyError, match="are not encrypted") as refused:
        await records_of(settings, key)

    assert "local2 export" in str(refused.value.remedy)
    assert await records_of(settings, None) == 3


def deleted(file: Path) -> None:
    file.unlink()


def readable(file: Path) -> None:
    file.chmod(0o640)


def shortened(file: Path) -> None:
    file.write_bytes(file.read_bytes()[:40])


@pytest.mark.parametrize(
    ("break_key", "message"),
    [
        pytest.param(deleted, "cannot be read", id="deleted"),
        pytest.param(readable, "may be read by others", id="readable"),
        pytest.param(shortened, "does not hold a key", id="cut"),
    ],
)
@pytest.mark.usefixtures("worker_here")
async def test_an_unusable_key_stops_the_start_and_the_doctor_reports_it(
    settings: Settings, key: ContentKey, break_key: Callable[[Path], None], message: str
) -> None:
    file = settings.memory.content_key_file
    assert file is not None
    break_key(file)

    with pytest.raises(LedgerKeyError, match=message) as refused:
        async with open_stack(settings, with_generator=False):
            pass
    findings = await examine(settings)

    assert refused.value.remedy is not None
    assert findings["content key"].verdict == "broken"
    assert key.hex()[:40] not in f"{refused.value} {findings}"


def test_a_key_file_is_private_never_shown_and_never_overwritten(
    key: ContentKey, tmp_path: Path
) -> None:
    file = tmp_path / "content.key"

    assert file.stat().st_mode & 0o777 == 0o600
    assert key.hex() not in f"{key!r} {key}"
    assert ContentKey.read(file).hex() == key.hex()
    with pytest.raises(UnwritableError):
        ContentKey.create(file)


async def test_without_sqlcipher_the_error_says_what_to_install(
    settings: Settings, key: ContentKey, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "sqlcipher3", None)
    settings.memory.data_dir.mkdir()

    with pytest.raises(LedgerKeyError, match="SQLCipher is not installed") as refused:
        await records_of(settings, key)

    assert "local2-memory[encryption]" in str(refused.value.remedy)


def test_without_a_key_no_encryption_library_is_imported() -> None:
    script = (
        "import local2.stack.app, local2.examination, sys; sys.exit('sqlcipher3' in sys.modules)"
    )

    assert subprocess.run([sys.executable, "-c", script], check=False).returncode == 0


def cut_the_log(folder: Path) -> None:
    os.truncate(folder / LOG, EARLY)


def flip_the_log(folder: Path) -> None:
    flip(folder / LOG, EARLY)


def lose_the_ledger(folder: Path) -> None:
    for file in folder.glob("ledger.sqlite3*"):
        file.unlink()


@pytest.mark.parametrize("damage", [cut_the_log, flip_the_log, lose_the_ledger])
async def test_an_encrypted_ledger_that_lost_commits_is_refused(
    settings: Settings, key: ContentKey, tmp_path: Path, damage: Callable[[Path], None]
) -> None:
    await fill(settings, key)
    shutil.rmtree(settings.memory.data_dir)
    (tmp_path / "killed").rename(settings.memory.data_dir)
    damage(settings.memory.data_dir / OWN)

    with pytest.raises(DamagedError):
        await records_of(settings, key)
    assert (await examine(settings))["ledger"].verdict == "broken"


async def test_the_doctor_finds_a_flipped_byte_in_an_encrypted_ledger(
    settings: Settings, key: ContentKey
) -> None:
    await fill(settings, key)
    findings = await examine(settings)
    assert findings["ledger"].detail.startswith(f"{RECORDS} records")
    assert findings["whole ledger"].verdict == "ok"
    assert findings["content key"].verdict == "ok"

    file = ledger_path(settings.memory, "default", key)
    flip(file, file.stat().st_size // 2)

    broken = [one for one in (await examine(settings)).values() if one.verdict == "broken"]
    assert [one.name for one in broken] in (["ledger"], ["whole ledger"])
    assert "restore" in str(broken[0].remedy)


@pytest.mark.usefixtures("worker_forked")  # this process may have freed plain text
async def test_a_stack_with_a_key_leaves_no_plain_text_in_any_file(
    settings: Settings, tmp_path: Path
) -> None:
    """This includes Chroma's files, which the key does not encrypt."""
    async with open_stack(settings, log_folder=tmp_path / "logs") as stack:
        await save(stack.bus, f"The {MARK} is tuned on Friday.")
        fact = {"topic": "user.instrument", "content": f"A {MARK}."}
        assert (await call_tool(stack.bus, "save_topic", fact, caller=CALLER)).ok
        await in_step(stack.bus, records=2)
        found = await search(stack.bus, MARK)
        running = files_with(MARK.encode(), tmp_path)
    async with open_stack(settings, log_folder=tmp_path / "logs") as stack:
        again = await search(stack.bus, MARK)

    assert len(found["hits"]) == len(again["hits"]) == 1
    assert running == files_with(MARK.encode(), tmp_path) == []


@pytest.mark.usefixtures("worker_forked")  # this process may have freed plain text
async def test_deleting_the_key_erases(settings: Settings, tmp_path: Path) -> None:
    async with open_stack(settings, log_folder=tmp_path / "logs") as stack:
        await save(stack.bus, f"The {MARK} is tuned on Friday.")
        await in_step(stack.bus, records=1)
    assert settings.memory.content_key_file is not None
    settings.memory.content_key_file.unlink()

    assert files_with(MARK.encode(), tmp_path) == []
    for without in (settings, settings_in(tmp_path)):
        with pytest.raises(LedgerKeyError):
            async with open_stack(without, with_generator=False):
                pass
    another = ContentKey.create(tmp_path / "another.key")
    with (
        pytest.raises(LedgerKeyError),
        closing(connect_encrypted(ledger_path(settings.memory, "default", another), another)),
    ):
        pass


async def stored(server: EmbeddedServer) -> list[bytes]:
    async with connect(server.url, name="test") as bus:
        stream = bus.client.jetstream()
        info = await stream.stream_info("TURNS")
        held = [await stream.get_msg("TURNS", seq=n + 1) for n in range(info.state.messages)]
        return [message.data or b"" for message in held]


async def test_turns_in_the_stream_are_encrypted_and_survive_a_start_with_another_key(
    key: ContentKey, tmp_path: Path
) -> None:
    """A server with another key would delete the turns, so it is not started."""
    folder = tmp_path / "nats"
    another = ContentKey.create(tmp_path / "another.key")
    async with embedded_server(folder, host="127.0.0.1", port=-1, key=key) as server:
        async with connect(server.url, name="test") as bus:
            stream = bus.client.jetstream()
            await stream.add_stream(name="TURNS", subjects=["turns"])
            await stream.publish("turns", MARK.encode())
        command = Path("/proc", str(server.pid), "cmdline")
        shown = command.read_bytes() if command.exists() else b""
    for wrong in (another, None):
        with pytest.raises(LedgerKeyError, match="encrypted with"):
            async with embedded_server(folder, host="127.0.0.1", port=-1, key=wrong):
                pass
    async with embedded_server(folder, host="127.0.0.1", port=-1, key=key) as server:
        kept = await stored(server)

    assert kept == [MARK.encode()]
    assert files_with(MARK.encode(), folder) == []
    assert files_with(key.hex().encode(), folder) == []
    assert key.hex().encode() not in shown
