"""Secrets stay where they were configured, and files are unreadable for other users.

A whole stack runs with a marked secret in every place that takes one. It is used in many ways and
driven into its errors. Then all of its output is searched for the marks.
"""

import asyncio
import json
import os
import signal
import stat
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from commands import Running, in_a_fork, local2
from local2.bus.connection import BusMessage, Connection, connect
from local2.client.queries import QueryClient
from local2.client.shared_stack import StackUsage
from local2.client.tools import call_tool
from local2.config_files import load_settings
from local2.content_key import ContentKey
from local2.errors import without_credentials
from local2.home import folder_lock
from local2.logs import logging_to
from local2.stack import joining
from local2.stack.app import open_stack
from nats_servers import nats_server
from stacks import CALLER, in_step, recall, save, search
from stand_ins.ollama_server import OllamaStandIn, Reply
from stand_ins.rerank_server import Answer, RerankStandIn
from waiting import wait_until

MARK = "s3cr3t"
BUS, RERANKER, RERANKER_KEY, OLLAMA, CHAT, INNER, TYPED = (
    f"{MARK}-{name}" for name in ("bus", "reranker", "key", "ollama", "chat", "inner", "typed")
)
"""One mark for each place where a secret is configured. A new place gets its own mark here, and is
set in `configured`; a secret whose text we cannot choose, like a key's digits, joins in `marks`."""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """The folder that the commands run in, which must contain no secret."""
    folder = tmp_path / "here"
    folder.mkdir()
    return folder


@pytest.fixture
def content_key(tmp_path: Path) -> ContentKey:
    return ContentKey.create(tmp_path / "content.key")


@pytest.fixture
def bus_url(tmp_path: Path, folder: Path) -> Iterator[str]:
    """The address of a separate server, which asks for a password."""
    asks = f'authorization {{ user: "memory", password: "{BUS}" }}'
    stores = f'jetstream {{ store_dir: "{folder}/jetstream" }}'
    with nats_server(tmp_path, asks, stores, log=folder / "server.log") as url:
        yield url.replace("//", f"//memory:{BUS}@")


@pytest.fixture
def configured(  # noqa: PLR0917 - a fixture for each secret
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
    folder: Path,
    bus_url: str,
    content_key: ContentKey,
    ollama: OllamaStandIn,
    reranking: RerankStandIn,
) -> list[str]:
    """Set every secret, and return the marks to search for."""

    def with_password(url: str, password: str) -> str:
        return url.replace("://", f"://user:{password}@")

    for variable, value in {
        "BUS__URL": bus_url,
        "MEMORY__DATA_DIR": str(folder / ".local2"),
        "MEMORY__CHROMA_PATH": str(folder / ".chroma"),
        "MEMORY__CONTENT_KEY_FILE": str(tmp_path / "content.key"),
        "MEMORY__RERANKER_URL": with_password(reranking.url, RERANKER),
        "MEMORY__RERANKER_KEY": RERANKER_KEY,
        "MEMORY__OLLAMA_URL": with_password(ollama.url, OLLAMA),
        "GENERATOR__OLLAMA_URL": with_password(ollama.url, CHAT),
    }.items():
        monkeypatch.setenv(f"LOCAL2_{variable}", value)
    monkeypatch.setattr(joining, "new_secret", lambda: INNER)
    digits = content_key.hex()
    return [MARK, digits, digits.upper(), bytes.fromhex(digits).decode("latin-1")]


class Traffic:
    """Everything sent over the bus, and every command line on the machine during the test."""

    def __init__(self) -> None:
        self.seen: list[str] = []

    async def subscribe(self, bus: Connection) -> None:
        async def receive(message: BusMessage) -> None:
            self.seen.append(repr(message))

        await bus.subscribe(">", receive)
        await bus.flush()

    def read_command_lines(self) -> None:
        for process in Path("/proc").glob("[0-9]*"):
            with suppress(OSError):
                self.seen.append(process.joinpath("cmdline").read_bytes().decode("latin-1"))


async def use(bus: Connection, folder: Path, ollama: OllamaStandIn) -> list[str]:
    """Use a bit of everything, and return what the commands print."""
    await in_step(bus)
    await save(bus, "Gold is a metal.")
    await in_step(bus, records=1)
    await search(bus, "metal")
    await recall(bus, "Which metal?")
    ollama.script(Reply(content="Gold, I think."))
    async with QueryClient(bus) as asking:
        await asking.ask("Which metal is it?", caller=CALLER)
    commands = (
        ("doctor", "--json"),
        ("call", "search_memory", "nonsense=1"),
        ("ask", "Which metal?"),
        ("export", "exported.jsonl"),
        ("up",),
    )
    return await asyncio.gather(*(printed(folder, *words) for words in commands))


async def printed(folder: Path, *words: str) -> str:
    done = await asyncio.to_thread(in_a_fork, folder, *words)
    return f"{words}: {done.stdout}{done.stderr}"


async def fail(bus: Connection, ollama: OllamaStandIn, reranking: RerankStandIn) -> None:
    """Make everything that the stack depends on fail, in several ways."""
    reranking.script(*(Answer(status=401) for _ in range(2)), Answer(raw=b"nonsense"))
    for _ in range(4):
        await recall(bus, "Which metal?")
    reranking.stop()
    ollama.fail_next(status=401, error="not you")
    await call_tool(bus, "save_memory", {"content": "Silver is another."}, caller=CALLER)
    async with QueryClient(bus) as asking:
        await asking.ask("Which metal?", caller=CALLER)
        ollama.stop()
        await asking.ask("Which metal?", caller=CALLER)
    await recall(bus, "Which metal is it?")
    await call_tool(bus, "ingest", {"messages": 7}, caller=CALLER)
    await bus.publish("tool.request.search_memory", b"not an envelope")


MISCONFIGURED = [
    ("BUS__URL", f"nats://memory:{TYPED}@127.0.0.1:1"),
    ("BUS__URL", f"memory:{TYPED}@127.0.0.1:1"),
    ("BUS__URL", f"nats://memory:{TYPED}/x@127.0.0.1:port"),
    ("BUS__URL", f"[{TYPED}"),
    ("MEMORY__RERANKER_KEY", f"@{TYPED}"),
    ("MEMORY__RERANKER_KEY", f"*{TYPED}"),
    ("MEMORY__RERANKER_KEY", f"!{TYPED}"),
    ("MEMORY__RERANKER_KEY", f"{{{TYPED}: 1}}"),
    ("MEMORY__RERANKER_KEY", f"{TYPED}\x7f"),
    ("MEMORY__RERANKER_URL", f"http://user:{TYPED}@[::1"),
    ("MEMORY__RERANKER_URL", f"ftp://user:{TYPED}@127.0.0.1"),
    ("MEMORY__OLLAMA_URL", f"http://user:{TYPED}/x@127.0.0.1:port"),
    ("GENERATOR__OLLAMA_URL", f"http://user:{TYPED}/x@127.0.0.1:port"),
    ("GENERATOR__OLLAMA_URL", f"http://user:{TYPED}@[::1"),
    ("GENERATOR__OPENAI_URL", f"http://user:{TYPED}@[::1"),
    ("MEMORY__OPENAI_URL", f"ftp://user:{TYPED}@127.0.0.1"),
]


async def test_no_secret_appears_in_any_output_of_a_stack(  # noqa: PLR0917
    configured: list[str],
    folder: Path,
    bus_url: str,
    ollama: OllamaStandIn,
    reranking: RerankStandIn,
    capfd: pytest.CaptureFixture[str],
) -> None:
    traffic = Traffic()
    with logging_to(folder / "stack.log", level="debug"):
        async with (
            open_stack(load_settings(), log_folder=folder / "logs") as stack,
            connect(bus_url, name="ears") as listening,
        ):
            assert stack.bus.secret == INNER
            await in_step(stack.bus)
            await traffic.subscribe(listening)
            said = await use(stack.bus, folder, ollama)
            traffic.read_command_lines()
            await fail(stack.bus, ollama, reranking)
            said.append(await printed(folder, "doctor"))
            traffic.read_command_lines()
    said += capfd.readouterr()
    files = {str(file): file.read_bytes() for file in folder.rglob("*") if file.is_file()}
    out = [
        *said,
        *traffic.seen,
        *(f"{name}: {data.decode('latin-1')}" for name, data in files.items()),
    ]

    assert any("tool.result" in message for message in traffic.seen)
    assert any("rerank" in file.decode("latin-1") for file in files.values())
    assert (folder / "exported.jsonl").stat().st_size > 0
    assert [text[:200] for mark in configured for text in out if mark in text] == []


@pytest.mark.usefixtures("impatient")
@pytest.mark.parametrize(("variable", "value"), MISCONFIGURED)
def test_an_error_does_not_repeat_a_wrong_setting_that_may_hold_a_secret(
    folder: Path, monkeypatch: pytest.MonkeyPatch, variable: str, value: str
) -> None:
    monkeypatch.setenv(f"LOCAL2_{variable}", value)

    printed = [
        f"{done.stdout}{done.stderr}"
        for done in (local2(folder, "doctor"), local2(folder, "tools"))
    ]

    assert all(printed)
    assert [text for text in printed if TYPED in text] == []


def test_an_error_does_not_quote_a_settings_file_that_is_not_yaml(folder: Path) -> None:
    config = folder / "config"
    config.mkdir()
    (config / "memory.yaml").write_text(f'top_k: 5\nreranker_key: "{TYPED}\nreranker_model: x\n')

    done = local2(folder, "tools")

    error = "".join(done.stderr.split())  # it is wrapped within words, too
    assert "memory.yaml" in error
    assert "line4" in error
    assert TYPED not in done.stderr


@pytest.mark.parametrize(
    ("url", "shown"),
    [
        ("nats://127.0.0.1:4222", "nats://127.0.0.1:4222"),
        ("nats://user:pass@host:4222", "nats://host:4222"),
        ("nats://token@host:4222", "nats://host:4222"),
        ("user:pass@host", "host"),
        ("tls://user:p@s/s@host:1", "tls://host:1"),
        ("http://host:1/api?key=pass", "http://host:1/api"),
        ("nats://user:pass@[::1]:4222", "nats://[::1]:4222"),
    ],
)
def test_an_address_is_shown_without_its_credentials(url: str, shown: str) -> None:
    assert without_credentials(url) == shown


@pytest.fixture
def lax() -> Iterator[None]:
    """Set the umask of most machines, which lets everybody read new files."""
    before = os.umask(0o022)
    yield
    os.umask(before)


def exposed(folder: Path) -> list[str]:
    """Return the files that others may read or write in a folder, including the folder itself."""
    return [
        f"{stat.filemode(path.lstat().st_mode)} {path}"
        for path in (folder, *folder.rglob("*"))
        if path.lstat().st_mode & 0o077
    ]


@pytest.mark.usefixtures("lax")
def test_files_written_by_the_command_line_are_private(folder: Path) -> None:
    running = Running(folder)
    try:
        assert in_a_fork(folder, "call", "save_memory", "content=Gold is a metal.").stdout
        assert in_a_fork(folder, "export", "exported.jsonl").returncode == 0
        wait_until((folder / ".chroma" / "chroma.sqlite3").exists)  # its worker starts later
        written = [exposed(folder / name) for name in (".local2", ".chroma", "exported.jsonl")]
    finally:
        running.stop(signal.SIGTERM)

    assert (folder / ".local2" / "nats" / "server.conf").exists()
    assert written == [[], [], []]
    assert exposed(folder / ".local2") == exposed(folder / ".chroma") == []


@pytest.mark.usefixtures("lax", "worker_here")
async def test_the_library_keeps_its_folders_private_without_changing_the_umask(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(folder)
    async with open_stack(load_settings(), with_generator=False) as stack:
        await save(stack.bus, "Gold is a metal.")
        inside = exposed(folder / ".local2")

    assert [path for path in inside if "models" not in path] == []
    assert not (folder / ".chroma").stat().st_mode & 0o077


@pytest.mark.usefixtures("lax")
def test_a_new_home_is_private(folder: Path) -> None:
    home = folder / "share" / "local2"
    with StackUsage(home / ".local2"), folder_lock(home / ".local2" / "nats"):
        assert exposed(folder / "share") == []


def test_the_doctor_reports_files_that_others_may_read(folder: Path) -> None:
    data = folder / ".local2"
    (data / "nats").mkdir(parents=True)
    data.chmod(0o755)
    (data / "ledger.tally").touch(mode=0o600)
    assert "others may read" not in local2(folder, "doctor", "--json").stdout

    (data / "ledger.tally").chmod(0o644)
    (finding,) = [
        one
        for one in json.loads(local2(folder, "doctor", "--json").stdout)
        if one["name"] == f"folder {data}"
    ]
    assert finding["verdict"] == "note"
    assert finding["remedy"] == f"chmod -R go= {data}"

    data.chmod(0o700)
    assert "others may read" not in local2(folder, "doctor", "--json").stdout
