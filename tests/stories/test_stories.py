"""Every story in `stories/` passes on a live stack; conversations also pass with a chat model.

Stories share a stack, unless they restart it or look at what everybody is shown.
"""

import re
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
import pytest_asyncio
from msgspec.structs import replace
from rich.console import Console

from local2.cli.stories import results_table
from local2.protocol.payloads import Json
from local2.settings import GeneratorSettings, Settings
from local2.stories.bench import Bench, FreshBench
from local2.stories.runner import run_story
from local2.stories.script import Restart, Say, Step, Story, load_story
from stacks import settings_in
from stand_ins.ollama_server import OllamaStandIn, Reply
from workers import stack_with_worker_here

FOLDER = Path(__file__).parents[2] / "stories"
WITH_MODEL = "long_conversation"
"""Runs with a model only, below; `test_conversations.py` has many turns answered by rules."""
STORIES = {path.stem: load_story(path) for path in sorted(FOLDER.glob("*.yaml"))}
ABOUT_EVERYBODY = {"recall_scopes", "top_memories"}
ALONE = [
    name
    for name, story in STORIES.items()
    if name in ABOUT_EVERYBODY
    or any(isinstance(step, Restart) for session in story.sessions for step in session.turns)
]
TOGETHER = [name for name in STORIES if name not in {WITH_MODEL, *ALONE}]
SMALL = 4_096
"""Tokens of a context that a few turns fill."""
TURNS = 80
"""Turns that fill it more than once."""


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def bench(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Bench]:
    folder = tmp_path_factory.mktemp("stories")
    async with (
        stack_with_worker_here(settings_in(folder)) as stack,
        Bench(stack.url) as opened,
    ):
        yield opened


async def run_and_check(story: Story, bench: Bench) -> None:
    result = await run_story(story, bench)
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


def shortened(story: Story) -> Story:
    """The story, with no text said more than TURNS times."""
    return replace(
        story,
        sessions=tuple(
            replace(session, turns=tuple(map(_shortened_step, session.turns)))
            for session in story.sessions
        ),
    )


def _shortened_step(step: Step) -> Step:
    if isinstance(step, Say) and step.times > TURNS:
        return replace(step, times=TURNS)
    return step


@pytest.mark.asyncio(loop_scope="module")
@pytest.mark.parametrize("name", TOGETHER)
async def test_the_story_passes_on_a_stack_that_others_used(name: str, bench: Bench) -> None:
    await run_and_check(STORIES[name], bench)


@pytest.mark.usefixtures("worker_here")
@pytest.mark.parametrize("name", ALONE)
async def test_the_story_passes_on_a_stack_of_its_own(name: str, tmp_path: Path) -> None:
    async with FreshBench(tmp_path, Settings(), model="rules") as bench:
        await run_and_check(STORIES[name], bench)


@pytest.mark.usefixtures("worker_here")
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
    async with FreshBench(tmp_path, settings, model="ollama") as bench:
        await run_and_check(shortened(STORIES[name]), bench)
