"""`local2 forget` previews, asks for confirmation, erases and prints a receipt."""

import json
from pathlib import Path
from unittest.mock import AsyncMock

import pytest
from click.testing import CliRunner

from commands import TALK, Served, answer, lines, local2, recalled
from local2.bus.vector_client import VectorClient
from local2.cli import app
from local2.errors import VectorError

SESSION = ("--session", "s1")


@pytest.fixture
def talk(running: Served, tmp_path: Path, user: str) -> str:
    """Ingest a conversation of the user, and return its file."""
    file = lines(tmp_path / "talk.jsonl", TALK)
    answer(running.folder, "ingest", file, "--user", user, *SESSION)
    return file


def run_forget(running: Served, reply: str, *words: str, monkeypatch: pytest.MonkeyPatch) -> str:
    """Run the command, reply to its question, and return its output."""
    monkeypatch.chdir(running.folder)
    return CliRunner().invoke(app, ["forget", *words], input=reply).output


@pytest.mark.usefixtures("talk")
def test_a_dry_run_shows_counts_and_erases_nothing(running: Served, user: str) -> None:
    shown = local2(running.folder, "forget", "--user", user, "--dry-run")

    assert "Would be erased" in shown.stdout
    assert "messages" in shown.stdout
    assert recalled(running.folder, "densest metal", "--user", user)


def test_what_was_stored_without_a_user_is_named_if_nothing_of_the_user_is_found(
    running: Served, user: str
) -> None:
    topic = "topic=project.harbour"
    answer(running.folder, "call", "save_topic", topic, "content=Kiel", "--user", "")

    of_the_user = local2(running.folder, "forget", "--topic", "project.harbour", "--user", user)
    of_nobody = local2(
        running.folder, "forget", "--topic", "project.harbour", "--user", "", "--yes"
    )

    assert f"Only what belongs to {user} was looked for. `--user ''`" in of_the_user.stdout
    assert "facts" in of_nobody.stdout
    assert "looked for" not in of_nobody.stdout


@pytest.mark.usefixtures("talk")
def test_forget_erases_only_after_a_confirmation(
    running: Served, user: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    refused = run_forget(running, "n\n", "--user", user, monkeypatch=monkeypatch)

    assert "Erase it for good?" in refused
    assert recalled(running.folder, "densest metal", "--user", user)

    confirmed = run_forget(running, "y\n", "--user", user, monkeypatch=monkeypatch)

    assert "Checked at" in confirmed
    assert recalled(running.folder, "densest metal", "--user", user) == []


def test_a_forgotten_session_can_be_ingested_again_only_with_allow_again(
    running: Served, user: str, talk: str
) -> None:
    as_user = ("--user", user)

    receipt = answer(running.folder, "forget", *as_user, *SESSION, "--yes")
    (again,) = answer(running.folder, "ingest", talk, *as_user, *SESSION)
    printed = local2(running.folder, "ingest", talk, *as_user, *SESSION).stdout
    (allowed,) = answer(running.folder, "ingest", talk, *as_user, *SESSION, "--allow-again")
    for_good = local2(running.folder, "forget", *as_user, *SESSION, "--yes").stdout
    for_now = local2(running.folder, "forget", *as_user, *SESSION, "--yes", "--allow-again").stdout

    assert (receipt["complete"], receipt["erased"]) == (True, {"messages": 4})
    assert (again["data"]["remembered"], again["data"]["erased"]) == (0, 4)
    assert "4 erased before" in printed
    assert (allowed["data"]["remembered"], allowed["data"]["erased"]) == (4, 0)
    assert "A later import cannot store the erased content again." in for_good
    assert "A later import can store the erased content again." in for_now


@pytest.mark.usefixtures("talk")
def test_an_erasure_that_cannot_be_checked_everywhere_fails_and_says_where(
    running: Served, user: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    away = AsyncMock(side_effect=VectorError("The vector worker is away."))
    monkeypatch.setattr(VectorClient, "held", away)

    done = local2(running.folder, "forget", "--user", user, "--yes")

    assert done.returncode == 1
    assert "vector index" in done.stdout
    assert "The vector worker is away." in " ".join(done.stdout.split())


def test_json_without_yes_erases_nothing(running: Served, user: str, talk: str) -> None:
    assert talk
    refused = local2(running.folder, "forget", "--user", user, "--json")

    assert refused.returncode == 1
    assert "--yes" in json.loads(refused.stdout)["error"]["message"]
    assert recalled(running.folder, "densest metal", "--user", user)


@pytest.mark.parametrize("words", [(), ("--topic", "no key"), ("--id", "x", "--topic", "user.x")])
def test_forget_needs_a_valid_selection(running: Served, words: tuple[str, ...]) -> None:
    assert local2(running.folder, "forget", *words, "--yes").returncode == 1
