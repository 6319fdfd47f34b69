"""What an import sends at a time and again, and that it gives up its work when interrupted."""

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest

from local2.bus.connection import Connection
from local2.errors import OverloadedError
from local2.protocol.conversation import IngestReport
from local2.protocol.envelope import Sender
from local2.sources import messages
from local2.sources.importer import IN_FLIGHT, Importer
from local2.sources.opening import Source, opened

NOBODY: Any = None


def importer_of(source: Source) -> Importer:
    return Importer(source, Sender(user="ada"), mine=False, on_sent=lambda _: None)


def messages_in(folder: Path, *sessions: str) -> Path:
    """Write a file with a message of each session."""
    said = ({"role": "user", "content": "Osmium.", "session_id": name} for name in sessions)
    (folder / "messages.jsonl").write_text("\n".join(map(json.dumps, said)))
    return folder / "messages.jsonl"


async def test_a_part_of_a_session_is_sent_once_what_came_before_is_stored(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(messages, "PART_MESSAGES", 1)
    under_way: list[int] = [0]

    async def store(*_: Any) -> object:
        under_way.append(under_way[-1] + 1)
        await asyncio.sleep(0)
        under_way.append(under_way[-1] - 1)
        return IngestReport(session_id="a", ids=["m1"], added=1)

    monkeypatch.setattr(Importer, "_patiently", store)
    with opened(messages_in(tmp_path, "a", "a", "a"), "messages") as source:
        await importer_of(source).run(NOBODY)

    assert under_way == [0, 1, 0, 1, 0, 1, 0]


async def test_what_a_busy_stack_refuses_is_sent_again(bus: Connection, tmp_path: Path) -> None:
    refusals = [OverloadedError(retry_after=0.001)]

    async def send() -> str:
        if refusals:
            raise refusals.pop()
        return "stored"

    with opened(messages_in(tmp_path, "a"), "messages") as source:
        importer = importer_of(source)
        importer._bus = bus
        assert await importer._patiently(send) == "stored"


async def test_an_import_that_waits_for_answers_can_be_given_up(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked = asyncio.Semaphore(0)

    async def never(*_: Any) -> None:
        asked.release()
        await asyncio.Event().wait()

    monkeypatch.setattr(Importer, "_patiently", never)
    with opened(messages_in(tmp_path, *(f"s{n}" for n in range(99))), "messages") as source:
        running = asyncio.create_task(importer_of(source).run(NOBODY))
        for _ in range(IN_FLIGHT):
            await asked.acquire()
        running.cancel()
        with pytest.raises(asyncio.CancelledError):
            await running
        # That nothing was left unawaited, pytest checks: it would be a warning, and so an error.
