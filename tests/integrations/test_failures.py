"""Content that an adapter stored is available again after its stack died."""

import os
import signal
from functools import partial
from pathlib import Path

import pytest
from agents.items import TResponseInputItem

from commands import start_in_a_fork
from local2.client import shared_stack
from local2.errors import BusError
from local2.integrations.openai_agents import LocalSession
from stacks import pid_of_stack
from waiting import eventually


def message(text: str) -> TResponseInputItem:
    return {"role": "user", "content": text}


async def test_stored_content_survives_the_death_of_the_stack(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The adapter starts the stack itself, and starts it again after a kill."""
    monkeypatch.setattr(shared_stack, "start_stack", start_in_a_fork)
    monkeypatch.setenv("LOCAL2_MEMORY__EMBEDDER", "minilm")
    monkeypatch.setenv("LOCAL2_GENERATOR__CHAT", "rules")
    stored: list[TResponseInputItem] = []
    async with LocalSession("monday", home=tmp_path, user="ada", timeout=3) as session:

        async def added(text: str) -> bool:
            try:
                await session.add_items([message(text)])
            except BusError:
                return False
            stored.append(message(text))
            return True

        assert await added("before it died")
        os.kill(pid_of_stack(tmp_path), signal.SIGKILL)
        for number in range(3):
            await eventually(partial(added, f"after it died: {number}"), within=60)

        items = await session.get_items()
    assert [one for one in items if one in stored] == stored
