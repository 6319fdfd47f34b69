"""The whole stack with a model that extracts, while it hangs or is down."""

import threading
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from msgspec.structs import replace

from clocks import MovableClock
from extracted import extracted_home, home
from local2.settings import GeneratorSettings
from local2.stack.app import Stack, open_stack
from stacks import contents, recall, say, settings_in, status
from stand_ins.ollama_server import OllamaStandIn, Reply
from waiting import eventually

pytestmark = pytest.mark.usefixtures("worker_here", "model_clock")
BATH = "I live in Bath with two cats."
BY_RULES = "The user lives in Bath with two cats."


@pytest.fixture
async def stack(tmp_path: Path, ollama: OllamaStandIn) -> AsyncIterator[Stack]:
    """A stack in which only the extractor has a model, which has half a second to answer."""
    settings = settings_in(tmp_path, extraction_model="auto", extraction_timeout=0.5)
    chat = GeneratorSettings(chat="auto", ollama_url=ollama.url)
    async with open_stack(replace(settings, generator=chat)) as opened:
        yield opened


async def wait_until_extracted(stack: Stack) -> None:
    async def nothing_is_pending() -> bool:
        return (await status(stack.bus)).unread == 0

    await eventually(nothing_is_pending, within=30)


async def test_while_the_model_hangs_messages_are_found_and_the_rules_extract_in_its_place(
    stack: Stack, ollama: OllamaStandIn
) -> None:
    never = threading.Event()
    ollama.script_json(Reply(hold=never))

    await say(stack.bus, BATH)

    assert (await status(stack.bus)).unread == 1
    assert contents(await recall(stack.bus, "Where do I live?")) == [BATH]
    await wait_until_extracted(stack)
    never.set()
    assert await home(stack) == BY_RULES


async def test_while_the_model_is_down_the_rules_extract_and_it_extracts_when_it_is_back(
    stack: Stack, ollama: OllamaStandIn, model_clock: MovableClock
) -> None:
    ollama.fail_next(status=503, error="loading")
    await say(stack.bus, BATH)
    await wait_until_extracted(stack)
    assert await home(stack) == BY_RULES

    model_clock.move(minutes=1)
    ollama.script_json(extracted_home("Rome, close to the river, is where the user lives."))
    await say(stack.bus, "I live in Rome, close to the river.")
    await wait_until_extracted(stack)

    assert await home(stack) == "Rome, close to the river, is where the user lives."
