"""The whole stack with all models at an OpenAI-compatible endpoint that fails in every way."""

import json
from collections.abc import AsyncIterator, Callable
from pathlib import Path

import pytest
from msgspec.structs import replace

from extracted import extracted_home, home
from local2.client.queries import QueryClient
from local2.logs import logging_to
from local2.protocol.payloads import Generation
from local2.settings import GeneratorSettings, Settings
from local2.stack.app import Stack, open_stack
from stacks import CALLER, contents, in_step, recall, say, search, settings_in, status
from stand_ins.ollama_server import Reply
from stand_ins.openai_server import Failure, OpenAIStandIn
from waiting import eventually

pytestmark = pytest.mark.usefixtures("worker_here", "quick_retries")
KEY = "sk-s3cr3t"
BATH = "I live in Bath with two cats."
EMBEDDER = "openai:nomic-embed-text"


@pytest.fixture
def settings(tmp_path: Path, openai: OpenAIStandIn, monkeypatch: pytest.MonkeyPatch) -> Settings:
    """Settings with the memory's key in a file, and the generator's in the environment."""
    openai.key = KEY
    (tmp_path / "key").write_text(KEY)
    monkeypatch.setenv("SOME_KEY", KEY)
    settings = settings_in(
        tmp_path,
        embedder="auto",
        openai_url=openai.url,
        openai_key=str(tmp_path / "key"),
        extraction_model="auto",
    )
    generator = GeneratorSettings(openai_url=openai.url, openai_key="SOME_KEY")
    return replace(settings, generator=generator)


@pytest.fixture
async def stack(settings: Settings) -> AsyncIterator[Stack]:
    async with open_stack(settings) as opened:
        yield opened


async def ask(stack: Stack, text: str) -> Generation:
    async with QueryClient(stack.bus) as asking:
        return await asking.ask(text, caller=CALLER, timeout=30)


async def test_questions_facts_and_vectors_come_from_the_endpoint(
    stack: Stack, openai: OpenAIStandIn
) -> None:
    await in_step(stack.bus)
    openai.script_json(extracted_home("Bath is where the user lives with two cats.", 1, 2))
    await say(stack.bus, BATH)
    await eventually(lambda: _home_is_known(stack), within=30)
    openai.script(
        Reply(tool_calls=(("recall_topic", {"topic": "user.home"}),)),
        Reply(content="In Bath."),
    )

    turn = await ask(stack, "Where do I live?")

    assert (turn.answer, turn.error) == ("In Bath.", None)
    assert [call.name for call in turn.tool_calls or ()] == ["recall_topic"]
    assert "Bath" in str(openai.bodies("chat/completions")[-1]["messages"][-1])
    assert (await status(stack.bus)).embedder == EMBEDDER
    await in_step(stack.bus)  # a search by meaning succeeds


async def _home_is_known(stack: Stack) -> bool:
    return await home(stack) is not None


def wrong_key(openai: OpenAIStandIn) -> Callable[[], None]:
    openai.key = "another"
    return lambda: setattr(openai, "key", KEY)


def no_model(openai: OpenAIStandIn) -> Callable[[], None]:
    models, openai.models = openai.models, []
    return lambda: setattr(openai, "models", models)


def limited(openai: OpenAIStandIn) -> Callable[[], None]:
    openai.fail_next(*400 * [Failure(status=429, headers={"Retry-After-Ms": "1"})])
    return openai._failures.clear


def garbled(openai: OpenAIStandIn) -> Callable[[], None]:
    openai.trouble = "garbles"
    return lambda: setattr(openai, "trouble", None)


def crashing(openai: OpenAIStandIn) -> Callable[[], None]:
    openai.trouble = "crashes"
    return lambda: setattr(openai, "trouble", None)


@pytest.mark.parametrize(
    ("trouble", "message"),
    [
        (wrong_key, "refused the key (401)"),
        (no_model, "does not have the model gemma4"),
        (limited, "receives too many requests"),
        (garbled, "cannot be read"),
        (crashing, "No answer from"),
    ],
)
async def test_every_failure_is_reported_once_and_loses_nothing(
    stack: Stack,
    openai: OpenAIStandIn,
    trouble: Callable[[OpenAIStandIn], Callable[[], None]],
    message: str,
) -> None:
    await in_step(stack.bus)
    mend = trouble(openai)

    turn = await ask(stack, "Where might I live?")
    await say(stack.bus, BATH)
    meanwhile = await recall(stack.bus, "live Bath cats")
    waiting = await status(stack.bus)

    assert turn.error is not None
    assert message in turn.error.message
    assert BATH in contents(meanwhile)
    assert "Where might I live?" in contents(meanwhile)
    assert waiting.set_aside == []
    await eventually(lambda: _home_is_known(stack), within=60)  # by the rules

    mend()
    await in_step(stack.bus)
    assert BATH in contents(await recall(stack.bus, "live Bath cats"))


async def test_no_key_appears_in_logs_errors_answers_or_status(
    settings: Settings, openai: OpenAIStandIn, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    said: list[object] = []
    with logging_to(tmp_path / "stack.log", level="debug"):
        async with open_stack(settings) as stack:
            await in_step(stack.bus)
            openai.key = "another"  # the stand-in repeats the key that it refuses
            said += [await ask(stack, "Where?"), await say(stack.bus, BATH)]
            said += [await search(stack.bus, "cats"), await status(stack.bus)]
            openai.key = None
            openai.fail_next(*4 * [Failure(status=400, message=f"No {KEY} here")])
            said += [await ask(stack, "Where?"), await search(stack.bus, "dogs")]
            openai.stop()
            said += [await ask(stack, "Where?"), await status(stack.bus)]
            said.append(json.dumps([str(request.body) for request in openai.requests]))
    log = (tmp_path / "stack.log").read_text()
    printed = capfd.readouterr()

    assert "refused the key" in str(said)
    assert "turn_failed" in log
    assert KEY not in f"{said} {log} {printed}"
