"""An import that is interrupted gives up its work, whatever it was waiting for."""

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest

from local2.protocol.envelope import Sender
from local2.sources.importer import IN_FLIGHT, Importer
from local2.sources.opening import opened


async def test_an_import_that_waits_for_answers_can_be_given_up(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked = asyncio.Semaphore(0)

    async def never(*_: Any) -> None:
        asked.release()
        await asyncio.Event().wait()

    monkeypatch.setattr(Importer, "_patiently", never)
    file = tmp_path / "messages.jsonl"
    said = ({"role": "user", "content": "Osmium.", "session_id": f"s{n}"} for n in range(99))
    file.write_text("\n".join(map(json.dumps, said)))
    nobody: Any = None
    with opened(file, "messages") as source:
        importer = Importer(source, Sender(user="ada"), mine=False, on_sent=lambda _: None)
        running = asyncio.create_task(importer.run(nobody))
        for _ in range(IN_FLIGHT):
            await asked.acquire()
        running.cancel()
        with pytest.raises(asyncio.CancelledError):
            await running
        # That nothing was left unawaited, pytest checks: it would be a warning, and so an error.
