"""A model that answers in the form it is given, for those who ask one."""

from collections.abc import AsyncIterator

import pytest

from local.llm.choice import open_structured_model
from local.llm.models import StructuredModel
from stand_ins.ollama_server import OllamaStandIn


@pytest.fixture
async def model(ollama: OllamaStandIn) -> AsyncIterator[StructuredModel]:
    opened = await open_structured_model(
        "ollama", model="gemma4", context_size=8192, ollama_url=ollama.url
    )
    assert opened is not None
    yield opened
    await opened.close()
