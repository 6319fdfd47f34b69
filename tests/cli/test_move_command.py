"""`local2 move` copies a memory to PostgreSQL and back, and stacks on both answer the same."""

import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from commands import answer, local2, recalled, served
from local2.ledger.engines.sqlite.connections import connect
from postgres_server import PostgresServer
from stacks import settings_in
from waiting import wait_until

LEDGER = "LOCAL2_MEMORY__LEDGER"
MEMORIES = ("The observatory opens at nine.", "Osmium is the densest metal.", "Lead\0 is soft.")
QUESTION = "When can I see the stars?"


@pytest.fixture
def url(postgres_databases: PostgresServer) -> Iterator[str]:
    with postgres_databases.new_database() as created:
        yield created


def found(folder: Path) -> list[tuple[str, str]]:
    """Return what a recall finds once everything is indexed."""
    wait_until(lambda: not answer(folder, "recall", QUESTION)["degraded"])
    return [(item["id"], item["content"]) for item in recalled(folder, QUESTION)]


def refusal(folder: Path, *words: str) -> str:
    """Return why a command fails, on one line."""
    done = local2(folder, *words)
    assert done.returncode == 1
    return " ".join(done.stderr.split())


def test_a_memory_that_was_moved_there_and_back_is_recalled_as_before(
    tmp_path: Path, url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    home = tmp_path / "home"
    back = ("move", "--to", str(home / ".local2"))
    with served(settings_in(home)):
        for content in MEMORIES:
            assert local2(home, "call", "save_memory", f"content={content}").returncode == 0
        before = found(home)
        assert "in use by another stack" in refusal(home, "move", "--to", url)

    there = local2(home, "move", "--to", url)
    assert (there.returncode, there.stderr) == (0, "")
    assert "All is equal. The source is unchanged." in there.stdout.replace("\n", " ")
    assert "set `ledger`" in there.stdout.replace("\n", " ")
    again = answer(home, "move", "--to", url)
    assert (again["moved"]["was_whole"], again["moved"]["copied"]) == (True, 0)

    monkeypatch.setenv(LEDGER, url)
    with served(settings_in(tmp_path / "other", ledger=url)) as stack:
        assert found(stack.folder) == before
        assert local2(stack.folder, "call", "save_memory", "content=Newer.").returncode == 0
        assert "Stacks work on the ledger" in refusal(home, *back)
        newer = found(stack.folder)

    assert "one of the two has been changed since" in refusal(home, *back)
    for name in ("ledger.sqlite3", "ledger.tally"):
        (home / ".local2" / name).rename(tmp_path / name)
    assert "has the vectors of a former memory" in refusal(home, *back)
    shutil.rmtree(home / ".chroma")
    monkeypatch.chdir(home)
    done = answer(home, "move", "--to", ".local2")
    assert done["target"] == str(home.resolve() / ".local2" / "ledger.sqlite3")
    moved = done["moved"]
    assert {table["name"]: table["rows"] for table in moved["tables"]}["record"] == 4
    monkeypatch.delenv(LEDGER)
    with served(settings_in(home)):
        assert found(home) == newer
    assert not (tmp_path / "other" / ".chroma").exists()


def test_what_cannot_be_moved_is_refused_with_what_to_do(
    tmp_path: Path, url: str, empty_ledger: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert "There is no memory in" in refusal(tmp_path, "move", "--to", url)
    assert "`local2 backup` and `restore`" in refusal(
        tmp_path, "move", "--to", str(tmp_path / "files")
    )

    data_dir = tmp_path / ".local2"
    data_dir.joinpath("ledger.sqlite3").write_bytes((empty_ledger / "ledger.sqlite3").read_bytes())
    own = data_dir / "tenants" / "acme" / "ledger.sqlite3"
    own.parent.mkdir(parents=True)
    own.write_bytes(b"encrypted")
    assert "The memory of the tenant acme is encrypted" in refusal(tmp_path, "move", "--to", url)
    own.unlink()

    with connect(data_dir / "ledger.sqlite3") as connection:
        connection.execute("PRAGMA user_version = 1")
    assert "has schema 1, and this local2 has schema" in refusal(tmp_path, "move", "--to", url)

    monkeypatch.setenv(LEDGER, url)
    misspelt = refusal(tmp_path, "move", "--to", url.replace("postgresql:", "postgres-ql:"))
    assert "neither a database of PostgreSQL nor a folder" in misspelt
    assert "pg_dump and pg_restore" in refusal(tmp_path, "move", "--to", url)
    assert "has schema 1, and this local2 has schema" in refusal(
        tmp_path, "move", "--to", str(data_dir)
    )
