"""`local2 forget` shows what would go, asks, erases and prints a receipt; nothing goes unasked."""

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner

from commands import TALK, Served, answer, lines, local2, recalled
from local.cli import app

SESSION = ("--session", "s1")


@pytest.fixture
def talk(running: Served, tmp_path: Path, user: str) -> str:
    """A conversation of the user, remembered; its file."""
    file = lines(tmp_path / "talk.jsonl", TALK)
    answer(running.folder, "ingest", file, "--user", user, *SESSION)
    return file


def asked(running: Served, reply: str, *words: str, monkeypatch: pytest.MonkeyPatch) -> str:
    """What the command prints to somebody who replies to its question."""
    monkeypatch.chdir(running.folder)
    return CliRunner().invoke(app, ["forget", *words], input=reply).output


@pytest.mark.usefixtures("talk")
def test_a_dry_run_shows_counts_and_erases_nothing(running: Served, user: str) -> None:
    shown = local2(running.folder, "forget", "--user", user, "--dry-run")

    assert "Would be erased" in shown.stdout
    assert "messages" in shown.stdout
    assert recalled(running.folder, "densest metal", "--user", user)


@pytest.mark.usefixtures("talk")
def test_it_asks_first_and_takes_no_for_an_answer(
    running: Served, user: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    refused = asked(running, "n\n", "--user", user, monkeypatch=monkeypatch)

    assert "Erase it for good?" in refused
    assert recalled(running.folder, "densest metal", "--user", user)

    confirmed = asked(running, "y\n", "--user", user, monkeypatch=monkeypatch)

    assert "Checked at" in confirmed
    assert recalled(running.folder, "densest metal", "--user", user) == []


def test_a_forgotten_session_comes_back_when_it_may(running: Served, user: str, talk: str) -> None:
    who = ("--user", user)

    receipt = answer(running.folder, "forget", *who, *SESSION, "--yes")
    (again,) = answer(running.folder, "ingest", talk, *who, *SESSION)
    printed = local2(running.folder, "ingest", talk, *who, *SESSION).stdout
    (allowed,) = answer(running.folder, "ingest", talk, *who, *SESSION, "--allow-again")

    assert (receipt["complete"], receipt["erased"]) == (True, {"messages": 4})
    assert (again["data"]["remembered"], again["data"]["erased"]) == (0, 4)
    assert "4 erased before" in printed
    assert (allowed["data"]["remembered"], allowed["data"]["erased"]) == (4, 0)


def test_forgetting_with_allow_again_lets_an_import_bring_it_back(
    running: Served, user: str, talk: str
) -> None:
    who = ("--user", user)
    answer(running.folder, "forget", *who, *SESSION, "--yes")

    receipt = answer(running.folder, "forget", *who, *SESSION, "--yes", "--allow-again")
    (again,) = answer(running.folder, "ingest", talk, *who, *SESSION)

    assert (receipt["erased"], receipt["may_come_back"]) == ({}, True)
    assert again["data"]["remembered"] == 4


def test_json_without_yes_erases_nothing(running: Served, user: str, talk: str) -> None:
    assert talk
    refused = local2(running.folder, "forget", "--user", user, "--json")

    assert refused.returncode == 1
    assert "--yes" in json.loads(refused.stdout)["error"]["message"]
    assert recalled(running.folder, "densest metal", "--user", user)


@pytest.mark.parametrize("words", [(), ("--topic", "no key"), ("--id", "x", "--topic", "user.x")])
def test_what_to_forget_has_to_be_said(running: Served, words: tuple[str, ...]) -> None:
    assert local2(running.folder, "forget", *words, "--yes").returncode == 1
