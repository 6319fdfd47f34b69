"""`local2 hooks` shows changes before it writes them, and undoes them exactly.

No other part of a client's settings changes.
"""

import json
import os
from pathlib import Path
from typing import Any

import pytest

from commands import answer, local2
from local2.hooks.clients import CLIENTS
from recorded_hooks import CLIENT_NAMES

FILES = {
    "claude-code": Path(".claude", "settings.json"),
    "codex": Path(".codex", "hooks.json"),
    "cursor": Path(".cursor", "hooks.json"),
}
THEIRS: dict[str, Any] = {
    "claude-code": {"matcher": "", "hooks": [{"type": "command", "command": "./check"}]},
    "codex": {"hooks": [{"type": "command", "command": "./check"}]},
    "cursor": {"command": "./check"},
}
EVENTS = {"claude-code": "Stop", "codex": "Stop", "cursor": "stop"}


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Use an empty home, where no client has settings yet."""
    for name in ("LOCAL2_HOME", "XDG_DATA_HOME", "CLAUDE_CONFIG_DIR", "CODEX_HOME"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("HOME", str(tmp_path))
    return tmp_path


@pytest.fixture(params=CLIENT_NAMES)
def client(request: pytest.FixtureRequest) -> str:
    return str(request.param)


def texts(client: str) -> list[str]:
    """Return settings as people and programs write them."""
    event, theirs = EVENTS[client], THEIRS[client]
    return [
        "{}",
        "{ }\n",
        '{"hooks": {}}',
        f'{{"hooks": {{"{event}": []}}}}\n',
        json.dumps({"version": 1, "hooks": {event: [theirs]}, "other": "ü"}, indent=2) + "\n",
        json.dumps({"hooks": {event: [theirs], "Later": [theirs]}}, indent=4),
        json.dumps({"hooks": {event: [theirs]}, "other": [1, 2]}, indent="\t") + "\n",
        json.dumps({"hooks": {event: [theirs]}}, indent=2).replace("\n", "\r\n"),
        '{"a": {"hooks": []},\n\n   "b": [ 1,2 ], "hooks": {"' + event + '":[\n]  } }',
        "",
        "\n",
    ]


def cases() -> list[Any]:
    return [
        pytest.param(client, text, id=f"{client}-{number}")
        for client in CLIENT_NAMES
        for number, text in enumerate(texts(client))
    ]


def write(home: Path, client: str, text: str) -> Path:
    file = home / FILES[client]
    file.parent.mkdir(exist_ok=True)
    file.write_bytes(text.encode())
    return file


def install(home: Path, client: str, *options: str) -> None:
    done = local2(home, "hooks", "install", client, "--yes", *options)
    assert done.returncode == 0, done.stderr


def uninstall(home: Path, client: str, *options: str) -> None:
    done = local2(home, "hooks", "uninstall", client, "--yes", *options)
    assert done.returncode == 0, done.stderr


def own_hooks(file: Path, client: str) -> dict[str, int]:
    """Count our hooks of each event."""
    hooks = json.loads(file.read_bytes()).get("hooks", {})
    mark = f"local2.hooks {client} "
    counts = {event: json.dumps(listed).count(mark) for event, listed in hooks.items()}
    return {event: count for event, count in counts.items() if count}


@pytest.mark.parametrize(("client", "text"), cases())
def test_installing_adds_hooks_once_and_nothing_else_and_uninstalling_restores_each_byte(
    client: str, text: str, home: Path
) -> None:
    before = json.loads(text.strip() or "{}")
    file = write(home, client, text)

    install(home, client)
    once = file.read_bytes(), file.stat().st_mtime_ns
    install(home, client)

    assert (file.read_bytes(), file.stat().st_mtime_ns) == once
    assert own_hooks(file, client) == dict.fromkeys(CLIENTS[client].events, 1)
    after = json.loads(file.read_bytes())
    for event, listed in before.get("hooks", {}).items():
        assert after["hooks"][event][: len(listed)] == listed
    assert {**after, "hooks": None} == {**before, "hooks": None} or not text.strip()

    uninstall(home, client)

    assert file.read_bytes().decode() == text


def test_uninstalling_removes_a_file_that_installing_created_with_its_folder(
    client: str, home: Path
) -> None:
    install(home, client)
    assert (home / FILES[client]).exists()
    uninstall(home, client)

    assert not (home / FILES[client]).parent.exists()


def test_other_options_replace_the_hooks_and_are_uninstalled_too(client: str, home: Path) -> None:
    text = texts(client)[4]
    file = write(home, client, text)
    install(home, client)
    install(home, client, "--user", "ada", "--home", str(home / "memory"))

    assert own_hooks(file, client) == dict.fromkeys(CLIENTS[client].events, 1)
    assert file.read_text().count("--user ada") == len(CLIENTS[client].events)
    uninstall(home, client)
    assert file.read_bytes().decode() == text


@pytest.mark.parametrize("indent", [None, 2, 4])
def test_later_edits_survive_uninstalling(client: str, indent: int | None, home: Path) -> None:
    """A client may rewrite all of its settings, and a user may add a hook."""
    file = write(home, client, texts(client)[4])
    install(home, client)
    settings = json.loads(file.read_bytes())
    settings["hooks"][EVENTS[client]].append({**THEIRS[client], "added": True})
    settings["hooks"]["Later"] = []
    settings["added"] = {"b": 1}
    file.write_text(json.dumps(settings, indent=indent))

    uninstall(home, client)

    left = json.loads(file.read_bytes())
    assert left == {
        "version": 1,
        "hooks": {
            EVENTS[client]: [THEIRS[client], {**THEIRS[client], "added": True}],
            "Later": [],
        },
        "other": "ü",
        "added": {"b": 1},
    }


@pytest.mark.parametrize("client", ["claude-code", "codex"])
def test_a_foreign_hook_in_our_group_survives_uninstalling(client: str, home: Path) -> None:
    file = write(home, client, "{}")
    install(home, client)
    settings = json.loads(file.read_bytes())
    theirs = {"type": "command", "command": "./check"}
    settings["hooks"]["Stop"][0]["hooks"].append(theirs)
    file.write_text(json.dumps(settings))

    uninstall(home, client)

    assert json.loads(file.read_bytes()) == {"hooks": {"Stop": [{"hooks": [theirs]}]}}


def test_without_the_record_only_our_hooks_are_removed(client: str, home: Path) -> None:
    before = {"version": 1, "hooks": {EVENTS[client]: [THEIRS[client]]}}
    file = write(home, client, json.dumps(before, indent=2))
    install(home, client)
    for record in (home / ".local").rglob("*.json"):
        record.unlink()

    uninstall(home, client)

    assert json.loads(file.read_bytes()) == before


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("{", "line 1 column 2"),
        ('{"a": 1,}', "it is not JSON"),
        ("// comment\n{}", "it is not JSON"),
        ("[]", "it is not an object"),
        ('{"hooks": []}', "`hooks` is not an object"),
        ('{"hooks": {"Stop": {}}}', "`hooks.Stop` is not a list"),
    ],
)
@pytest.mark.parametrize("command", ["install", "uninstall"])
def test_invalid_settings_are_refused_and_left_unchanged(
    command: str, text: str, reason: str, client: str, home: Path
) -> None:
    file = write(home, client, text)

    done = local2(home, "hooks", command, client, "--yes", "--json")

    assert done.returncode == 1
    message = json.loads(done.stdout)["error"]["message"]
    assert str(file) in message
    assert reason in message
    assert file.read_text() == text


def test_nothing_is_written_without_a_confirmation(client: str, home: Path) -> None:
    planned = answer(home, "hooks", "install", client)
    refused = local2(home, "hooks", "install", client)  # nobody confirms

    assert planned["done"] is False
    assert f"local2.hooks {client}" in planned["diff"]
    assert f"+++ {home / FILES[client]}" in planned["diff"]
    assert refused.returncode == 1
    assert not (home / FILES[client]).exists()


def test_uninstalling_without_an_installation_is_no_error(client: str, home: Path) -> None:
    done = local2(home, "hooks", "uninstall", client, "--yes")

    assert done.returncode == 0
    assert "Nothing to change" in done.stdout


def test_a_link_stays_a_link_and_its_target_keeps_its_mode(client: str, home: Path) -> None:
    file = write(home, client, "{}")
    target = home / "dotfiles.json"
    file.rename(target)
    target.chmod(0o640)
    file.symlink_to(target)

    install(home, client)

    assert file.is_symlink()
    assert own_hooks(target, client)
    assert target.stat().st_mode & 0o777 == 0o640


def test_hooks_can_be_installed_for_a_single_project(client: str, home: Path) -> None:
    project = home / "project"
    project.mkdir()

    install(project, client, "--scope", "project")

    own = (project / "config", project / ".local2")
    (file,) = [one for one in project.rglob("*.json") if not any(map(one.is_relative_to, own))]
    assert file.parent.name == FILES[client].parent.name
    assert not (home / FILES[client]).exists()
    listed = answer(project, "hooks", "list")
    found = {(one["client"], one["scope"]): one["missing"] for one in listed}
    assert found[client, "project"] == []
    assert found[client, "user"] == list(CLIENTS[client].events)


def test_the_installed_command_runs_a_hook(client: str, home: Path) -> None:
    install(home, client, "--home", str(home / "memory"))
    settings = json.loads((home / FILES[client]).read_bytes())
    listed = settings["hooks"][EVENTS[client]][0]
    command = (listed.get("hooks") or [listed])[0]["command"]

    assert os.system(f"echo '{{}}' | LOCAL2_BUS__URL=nats://127.0.0.1:1 {command}") == 0  # noqa: S605


def test_hooks_of_an_earlier_version_are_outdated_until_they_are_installed_again(
    client: str, home: Path
) -> None:
    local2(home, "hooks", "install", client, "--yes")
    file = home / FILES[client]
    current = file.read_text(encoding="utf-8")
    file.write_text(current.replace("-m local2.hooks ", "-m local.hooks "), encoding="utf-8")

    assert f"`local2 hooks install {client}`" in local2(home, "hooks", "list").stdout
    local2(home, "hooks", "install", client, "--yes")

    assert file.read_text(encoding="utf-8") == current
    assert "outdated" not in local2(home, "hooks", "list").stdout
