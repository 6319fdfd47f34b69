"""Whole stacks in temporary folders, used over the bus like any client."""

from pathlib import Path
from typing import Any

from calling import call, caller_named
from local2.bus.connection import Connection
from local2.client.tools import call_tool
from local2.errors import BusError
from local2.home import MEMORY_FOLDER, read_runtime
from local2.protocol.envelope import Caller, decode
from local2.protocol.maintenance import Health, MemoryStatus
from local2.protocol.payloads import ToolResult
from local2.settings import (
    WITHOUT_MODELS,
    BusSettings,
    GeneratorSettings,
    MemorySettings,
    Settings,
)
from waiting import eventually

CALLER = caller_named("richard", agent="test", session_id="s1")


def pid_of_stack(home: Path) -> int:
    """The process of the stack that runs in a home."""
    runtime = read_runtime(home / MEMORY_FOLDER)
    assert runtime is not None
    return runtime.pid


def settings_in(folder: Path, *, bus_url: str | None = None, **memory: Any) -> Settings:
    """Return settings with everything under `folder`, and these of the memory.

    No model answers or works in the memory, unless one is named.
    """
    usual: dict[str, Any] = {
        "data_dir": folder / ".local2",
        "chroma_path": folder / ".chroma",
        "embedder": "minilm",
        "ollama_url": "http://127.0.0.1:1",
        **WITHOUT_MODELS,
    }
    return Settings(
        bus=BusSettings(url=bus_url),
        memory=MemorySettings(**{**usual, **memory}),
        generator=GeneratorSettings(chat="rules"),
    )


async def status(bus: Connection, *, reindex: bool = False) -> MemoryStatus:
    subject = "memory.reindex" if reindex else "memory.status"
    answer = await bus.request(subject, b"", timeout=30)
    return decode(answer.data, MemoryStatus).payload


async def health_of(bus: Connection) -> Health:
    return decode((await bus.request("memory.health", b"", timeout=20)).data, Health).payload


async def all_indexed(bus: Connection, *, records: int | None = None, within: float = 30) -> None:
    """Wait until the index has every record of the ledger, or this many records."""

    async def equal() -> bool:
        try:
            now = await status(bus)
        except BusError:
            return False
        expected = now.indexed if records is None else records
        return now.vectors_available and now.waiting == 0 and now.in_index == expected

    await eventually(equal, within=within)


async def all_read(bus: Connection) -> None:
    """Wait until every message has been searched for facts."""
    await eventually(lambda: status(bus), lambda now: now.unread == 0, within=30)


async def in_step(bus: Connection, *, records: int | None = None, within: float = 30) -> None:
    """Wait until every record is indexed, and searches are no longer degraded."""

    async def whole() -> bool:
        return not (await search(bus, "anything"))["degraded"]

    await all_indexed(bus, records=records, within=within)
    await eventually(whole, within=within)


async def save(bus: Connection, content: str, *, caller: Caller = CALLER) -> ToolResult:
    return await call_tool(bus, "save_memory", {"content": content}, caller=caller)


async def remember(bus: Connection, content: str, **args: Any) -> str:
    """Store a fact about the user, and return its id."""
    fact = {"content": content, "scope": "user", **args}
    return str((await call(bus, "remember_fact", fact, CALLER))["id"])


async def search(bus: Connection, query: str, *, caller: Caller = CALLER) -> dict[str, Any]:
    """Return the `data` of a search, which has to succeed."""
    return await call(bus, "search_memory", {"query": query}, caller)


async def say(bus: Connection, content: str, *, caller: Caller = CALLER) -> ToolResult:
    """Ingest one message into the caller's session."""
    messages = [{"role": "user", "content": content}]
    return await call_tool(bus, "ingest", {"messages": messages}, caller=caller)


async def recall(
    bus: Connection, query: str, *, caller: Caller = CALLER, **args: Any
) -> dict[str, Any]:
    """Return the `data` of `recall`, which has to succeed."""
    return await call(bus, "recall", {"query": query, **args}, caller)


def contents(found: dict[str, Any]) -> list[str]:
    """Return the contents of a search's hits, or of recalled items."""
    return [one["content"] for one in found.get("hits", found.get("items", ()))]
