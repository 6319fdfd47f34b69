"""A model that answers in the requested form, and another user."""

from collections.abc import AsyncIterator

import pytest

from calling import caller_named
from local2.llm.choice import open_structured_model
from local2.llm.models import StructuredModel
from local2.memory.service import MemoryService
from local2.memory.tenant import Memory
from local2.settings import GeneratorSettings
from stand_ins.ollama_server import OllamaStandIn


@pytest.fixture
async def model(ollama: OllamaStandIn) -> AsyncIterator[StructuredModel]:
    settings = GeneratorSettings(chat="ollama", ollama_url=ollama.url)
    opened = await open_structured_model(settings, "gemma4")
    yield opened
    await opened.close()


@pytest.fixture
def eve(memory: Memory) -> MemoryService:
    return memory.of(caller_named("eve", agent="robot"))
