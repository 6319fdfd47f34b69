"""`local2 tenants` without a stack: what it writes, keeps and refuses."""

from pathlib import Path

import pytest
import yaml

from commands import local2
from local2.home import runtime_file
from tenant_agents import ACCOUNTS


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    assert local2(tmp_path, "tenants", "init").returncode == 0
    return tmp_path


def test_accounts_made_beside_a_running_stack_ask_for_its_restart(tmp_path: Path) -> None:
    asking = "The running stack does not use them yet: restart it."
    data_dir = tmp_path / "running" / ".local2"
    data_dir.mkdir(parents=True)
    (tmp_path / "alone").mkdir()
    with runtime_file(data_dir, "nats://127.0.0.1:4222"):
        beside = local2(tmp_path / "running", "tenants", "init")
    alone = local2(tmp_path / "alone", "tenants", "init")

    assert asking in " ".join(beside.stdout.split())
    assert "restart" not in alone.stdout


def test_adding_a_tenant_prints_how_its_agent_connects_to_the_bus(folder: Path) -> None:
    printed = local2(folder, "tenants", "add", "acme").stdout
    seed = folder / ACCOUNTS / "acme" / "agent.nk"
    assert f'nkeys_seed="{seed}", inbox_prefix="_INBOX_agent"' in printed
    assert (folder / seed).stat().st_mode & 0o777 == 0o600
    assert (folder / seed).read_text().strip() not in printed


def test_credentials_that_do_not_exist_are_to_be_added(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("LOCAL2_BUS__CREDENTIALS", "config/nats/acme/desk.nk")
    listed = local2(folder, "list")
    assert listed.returncode == 1
    assert "There is no file " in listed.stderr
    assert "`local2 tenants list` shows each agent's file" in " ".join(listed.stderr.split())


def test_a_removed_tenant_keeps_the_key_of_its_memories(folder: Path) -> None:
    local2(folder, "tenants", "add", "acme")
    content_key = folder / ACCOUNTS / "acme" / "content.key"
    content_key.write_text("00" * 32)
    assert local2(folder, "tenants", "remove", "acme").returncode == 0
    assert [file.name for file in content_key.parent.iterdir()] == [content_key.name]


@pytest.mark.parametrize(
    ("words", "message"),
    [
        pytest.param(["add", "acme"], "already has an agent agent", id="added twice"),
        pytest.param(["add", "Acme"], "is not a tenant name", id="capitals"),
        pytest.param(["add", "a.*"], "is not a tenant name", id="wildcard"),
        pytest.param(["remove", "beta"], "There is no tenant 'beta'", id="unknown"),
        pytest.param(["rotate", "acme", "--agent", "x"], "has no agent 'x'", id="no such agent"),
        pytest.param(["share", "acme", "t", "beta"], "There is no tenant 'beta'", id="shared"),
        pytest.param(["token", "beta", "--user", "ada"], "There is no tenant 'beta'", id="token"),
        pytest.param(["init"], "There are already accounts in", id="made twice"),
    ],
)
def test_wrong_input_is_reported_and_changes_nothing(
    folder: Path, words: list[str], message: str
) -> None:
    local2(folder, "tenants", "add", "acme")
    before = (folder / ACCOUNTS / "tenants.yaml").read_bytes()
    failed = local2(folder, "tenants", *words)
    assert failed.returncode == 1
    assert message in failed.stderr.replace("\n", " ")
    assert (folder / ACCOUNTS / "tenants.yaml").read_bytes() == before


def test_a_generated_server_config_reserves_the_memorys_tools_and_no_other_name(
    folder: Path,
) -> None:
    """Roles name services besides tools, and may omit tools."""
    local2(folder, "tenants", "add", "acme")
    (folder / "config" / "roles.yaml").write_text("reader: {tools: [status]}")

    printed = local2(folder, "tenants", "server-config").stdout

    assert '"tool.request.recall"' in printed
    assert '"tool.request.status"' not in printed
    assert '"tool.request.turn"' not in printed


@pytest.mark.parametrize("words", [["list"], ["add", "acme"], ["server-config"]])
def test_without_accounts_each_command_says_how_to_create_them(
    tmp_path: Path, words: list[str]
) -> None:
    failed = local2(tmp_path, "tenants", *words)
    assert failed.returncode == 1
    assert "local2 tenants init" in failed.stderr


def test_a_tenant_without_a_signing_key_gets_one_by_rotating(folder: Path) -> None:
    local2(folder, "tenants", "add", "acme")
    entries = folder / ACCOUNTS / "tenants.yaml"
    written = yaml.safe_load(entries.read_text())
    written["tenants"]["acme"]["tokens"] = []
    entries.write_text(yaml.safe_dump(written))

    failed = local2(folder, "tenants", "token", "acme", "--user", "ada")
    assert failed.returncode == 1
    assert "acme has no key for tokens." in failed.stderr
    assert local2(folder, "tenants", "rotate", "acme").returncode == 0
    assert local2(folder, "tenants", "token", "acme", "--user", "ada").returncode == 0
