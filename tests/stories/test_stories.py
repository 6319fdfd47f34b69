"""Every story in `stories/` passes on a live stack; conversations also pass with a chat model."""

import re
from pathlib import Path

import pytest
from rich.console import Console

from local2.cli.stories import results_table
from local2.protocol.payloads import Json
from local2.settings import ChatChoice, GeneratorSettings, Settings
from local2.stories.bench import FreshBench
from local2.stories.runner import run_story
from local2.stories.script import load_story
from stand_ins.ollama_server import OllamaStandIn, Reply

pytestmark = pytest.mark.usefixtures("worker_here")
FOLDER = Path(__file__).parents[2] / "stories"
WITH_MODEL = "long_conversation"
"""Runs with a model only, below; `test_conversations.py` has many turns answered by rules."""
FILES = [
    pytest.param(path, id=path.stem)
    for path in sorted(FOLDER.glob("*.yaml"))
    if path.stem != WITH_MODEL
]
SMALL = 4_096
"""Tokens of a context that a few turns fill."""


async def run_and_check(path: Path, folder: Path, settings: Settings, *, model: ChatChoice) -> None:
    async with FreshBench(folder, settings, model=model) as bench:
        result = await run_story(load_story(path), bench)
    if not result.passed:
        Console(width=120).print(results_table([result]))
    assert {step.status for step in result.steps} == {"passed"}


def reader(messages: list[Json], tools: list[Json]) -> Reply:
    """Answer from the visible conversation; search for what is missing, if the tool is offered."""
    *before, last = messages
    if last["role"] == "tool":
        return Reply(content=last["content"])
    topic = re.search(r"remember about (.+)\?", last["content"])
    if topic is None:
        return Reply(content="Understood.")
    seen = [
        m["content"] for m in before if m["role"] == "user" and topic[1] in m["content"].lower()
    ]
    if seen or not tools:
        return Reply(content=" ".join(seen) or "I do not know.")
    return Reply(tool_calls=(("search_memory", {"query": topic[1]}),))


@pytest.mark.parametrize("path", FILES)
async def test_the_story_passes(path: Path, tmp_path: Path) -> None:
    await run_and_check(path, tmp_path, Settings(), model="rules")


@pytest.mark.parametrize(
    ("name", "tool"),
    [
        pytest.param(WITH_MODEL, "search_memory", id="searched"),
        pytest.param("conversation_goes_on", "none", id="restored"),
    ],
)
async def test_the_conversation_passes_with_a_model_of_small_context(
    name: str, tool: str, tmp_path: Path, ollama: OllamaStandIn
) -> None:
    ollama.responder = reader
    ollama.context_tokens = SMALL
    settings = Settings(
        generator=GeneratorSettings(context_size=SMALL, ollama_url=ollama.url, tools=(tool,)),
    )
    await run_and_check(FOLDER / f"{name}.yaml", tmp_path, settings, model="ollama")
