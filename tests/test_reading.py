"""The whole stack while the model that extracts hangs."""

import threading
from pathlib import Path

import pytest
from msgspec.structs import replace

from extracted import home
from local2.settings import GeneratorSettings
from local2.stack.app import open_stack
from stacks import all_read, contents, recall, say, settings_in, status
from stand_ins.ollama_server import OllamaStandIn, Reply

BATH = "I live in Bath with two cats."


@pytest.mark.usefixtures("worker_here", "model_clock")
async def test_while_the_model_hangs_messages_are_found_and_the_rules_extract_in_its_place(
    tmp_path: Path, ollama: OllamaStandIn
) -> None:
    settings = settings_in(tmp_path, extraction_model="auto", extraction_timeout=0.5)
    chat = GeneratorSettings(chat="auto", ollama_url=ollama.url)
    never = threading.Event()
    ollama.script_json(Reply(hold=never))
    async with open_stack(replace(settings, generator=chat)) as stack:
        await say(stack.bus, BATH)

        assert (await status(stack.bus)).unread == 1
        assert contents(await recall(stack.bus, "Where do I live?")) == [BATH]
        await all_read(stack.bus)
        never.set()
        assert await home(stack) == "The user lives in Bath with two cats."
