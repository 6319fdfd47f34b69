"""Without further settings, the chat model works in the memory; rules do what it does not do."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, Literal, NamedTuple, cast

import pytest
from msgspec.structs import replace

from clocks import MovableClock
from extracted import extracted_home
from ledgers import unjudged
from local2 import examination
from local2.bus.vector_client import VectorRequests
from local2.cli.output import Output
from local2.cli.up import greet
from local2.client.tools import call_tool
from local2.errors import ModelError, ModelRefusedError
from local2.ledger.records import Record
from local2.llm.budget import FIRST_PAUSE, LONGEST_PAUSE
from local2.memory.extraction.extractor import Passage, Utterance
from local2.memory.recall.expansion import Expansion
from local2.memory.recall.synthesis import Synthesis
from local2.memory.tenant import Models
from local2.protocol.envelope import utc_now
from local2.protocol.maintenance import ModelStatus, ModelUse
from local2.protocol.tool import caller_waits_until
from local2.settings import (
    WITHOUT_MODELS,
    GeneratorSettings,
    LimitSettings,
    MemorySettings,
    Settings,
)
from local2.stack.app import open_stack
from local2.stack.memory_models import open_models
from recalling import recalled_item
from stacks import CALLER, all_read, contents, recall, say, status
from stand_ins.ollama_server import OllamaStandIn
from stand_ins.openai_server import Failure, OpenAIStandIn
from waiting import eventually

NOON = datetime(2026, 5, 1, 12, tzinfo=UTC)
BATH = "I live in Bath with two cats."
BY_RULES = "The user lives in Bath with two cats."

pytestmark = pytest.mark.usefixtures("quick_retries")
Json = dict[str, Any]


class Opened(NamedTuple):
    """Models as the memory of a tenant uses them, and its settings."""

    models: Models
    settings: MemorySettings

    @property
    def status(self) -> ModelStatus:
        now = self.models.status()
        assert now is not None
        return now

    @property
    def problem(self) -> str | None:
        """The first problem of a part of the work."""
        return next((use.problem for use in self.status.uses if use.problem), None)


@asynccontextmanager
async def opened(settings: Settings, tenant: str = "default") -> AsyncIterator[Opened]:
    settings.memory.data_dir.mkdir(exist_ok=True)
    async with AsyncExitStack() as resources:
        no_worker = cast("VectorRequests", None)  # only a cross-encoder in the worker needs it
        shared = await open_models(resources, settings, no_worker)
        yield Opened(await shared.of(tenant), settings.memory)


def with_chat(folder: Path, generator: GeneratorSettings, **memory: Any) -> Settings:
    """Return settings of a memory in a folder that leave its models to the chat model's."""
    return Settings(
        memory=MemorySettings(
            data_dir=folder / ".local2", chroma_path=folder / ".chroma", embedder="minilm", **memory
        ),
        generator=generator,
    )


@pytest.fixture
def settings(tmp_path: Path, openai: OpenAIStandIn) -> Settings:
    """Settings that name nothing but an endpoint for chats."""
    return with_chat(tmp_path, GeneratorSettings(openai_url=openai.url))


def requests(openai: OpenAIStandIn) -> int:
    return len(openai.bodies("chat/completions"))


class Work(NamedTuple):
    """A part of the memory's work on a text.

    `answer` is what a model may answer; `is_of_model` tells whether an outcome is the model's.
    """

    do: Callable[[Opened, str], Awaitable[Any]]
    answer: Json
    is_of_model: Callable[[Any], bool]


async def extract(memory: Opened, text: str) -> list[str]:
    assert memory.models.extractor is not None
    message = Utterance(id="m1", role="user", content=f"{BATH} {text}", at=NOON)
    items = await memory.models.extractor.extract(Passage(messages=[message]))
    return [item.content for item in items]


async def judge(memory: Opened, text: str) -> object:
    assert memory.models.judge is not None
    rome, older = (
        Record(id=content[:9], kind="fact", content=content, event_time=NOON)
        for content in ("I live in Rome.", text)
    )
    return await memory.models.judge.verdicts(rome, [older])


async def expand(memory: Opened, text: str) -> object:
    assert memory.models.recall.expander is not None
    return await memory.models.recall.expander.expand(text)


async def synthesize(memory: Opened, text: str) -> object:
    synthesis = Synthesis(memory.models.synthesizer, within=memory.settings.synthesis_timeout)
    item = recalled_item(Record(id="m1", kind="fact", content=text, event_time=NOON))
    return await synthesis.answer("Where do I live?", [item])


WORK = {
    "extraction": Work(
        extract,
        extracted_home("Bath is where the user lives with two cats."),
        lambda found: found == ["Bath is where the user lives with two cats."],
    ),
    "judging": Work(
        judge,
        {"verdicts": [{"number": 1, "verdict": "replaces"}]},
        lambda found: found == ["replaces"],
    ),
    "queries": Work(
        expand,
        {"keywords": ["Somerset"], "topics": []},
        lambda found: found.keywords == ("Somerset",),
    ),
    "answers": Work(
        synthesize, {"answer": "In Bath.", "numbers": [1]}, lambda found: found.by_model
    ),
}

each_work = pytest.mark.parametrize("work", [pytest.param(w, id=name) for name, w in WORK.items()])


async def outcome(work: Work, memory: Opened) -> object:
    """Do the work; a verdict waits for the model, unless that refuses it."""
    try:
        return await work.do(memory, BATH)
    except ModelRefusedError:
        return "refused"
    except ModelError:
        return "waits"


@each_work
async def test_the_chat_model_does_the_memorys_work(
    settings: Settings, openai: OpenAIStandIn, work: Work
) -> None:
    openai.script_json(work.answer)

    async with opened(settings) as memory:
        assert work.is_of_model(await work.do(memory, BATH))

        assert memory.status.uses == [ModelUse(work=name, by="gemma4") for name in WORK]
        assert memory.status.calls == 1
        assert memory.status.tokens > 100
        assert "judging by gemma4" in str(memory.status)
        assert "today 1 of 5,000 calls" in str(memory.status)


class Trouble(NamedTuple):
    begin: Callable[[OpenAIStandIn], None]
    stops_model: bool
    """Whether the model fails, and not only its answer to one request."""


TROUBLES = {
    "refusal": Trouble(lambda server: server.fail_next(*3 * [Failure(status=400)]), False),
    "garbage": Trouble(lambda server: server.script_json("yes", "yes"), False),
    "another form": Trouble(lambda server: server.script_json({"yes": 1}, [{"yes": 1}]), False),
    "slowness": Trouble(lambda server: setattr(server, "trouble", "hangs"), True),
    "breaking off": Trouble(lambda server: setattr(server, "trouble", "crashes"), True),
    "no JSON at all": Trouble(lambda server: setattr(server, "trouble", "garbles"), True),
    "no model": Trouble(lambda server: server.models.clear(), True),
    "too many requests": Trouble(lambda server: server.fail_next(*9 * [Failure(status=429)]), True),
}


@pytest.mark.parametrize(
    ("name", "trouble"),
    [("queries", trouble) for trouble in TROUBLES]
    + [
        (name, trouble) for name in WORK if name != "queries" for trouble in ("refusal", "slowness")
    ],
)
async def test_what_a_model_gives_no_answer_to_is_done_by_rules_until_it_answers_again(
    settings: Settings,
    openai: OpenAIStandIn,
    model_clock: MovableClock,
    name: str,
    trouble: str,
) -> None:
    """What stops a model is found out in one place, and each work bears either kind of failure."""
    work, (begin, stops_model) = WORK[name], TROUBLES[trouble]
    parts = ("extraction", "judge", "query", "synthesis")
    seconds = 0.5 if stops_model else 30.0  # whatever else the model says is waited for
    timeouts = dict.fromkeys((f"{part}_timeout" for part in parts), seconds)
    settings = replace(settings, memory=replace(settings.memory, **timeouts))
    async with opened(replace(settings, generator=GeneratorSettings(chat="rules"))) as by_rules:
        without_model = {
            "extraction": await extract(by_rules, BATH),
            "judging": "waits" if stops_model else "refused",
            "queries": Expansion(),
            "answers": await synthesize(by_rules, BATH),
        }

    async with opened(settings) as memory:
        models = list(openai.models)
        begin(openai)
        found = await asyncio.wait_for(outcome(work, memory), 30)
        problem = memory.problem
        openai.trouble = None
        openai.models[:] = models
        openai._failures.clear()
        openai._json_script.clear()

        async def model_answers() -> bool:
            model_clock.move(hours=1)
            openai.script_json(work.answer)  # a request that hung may take one
            return work.is_of_model(await outcome(work, memory))

        await eventually(model_answers)
        assert memory.problem is None

    assert found == without_model[name]
    assert (problem is not None) == stops_model


@pytest.mark.parametrize(
    ("limits", "unit"),
    [({"tenant_model_calls": 2}, "2 calls"), ({"tenant_model_tokens": 50}, "50 tokens")],
)
async def test_rules_do_the_work_when_the_days_budget_is_used_up_until_the_next_day(
    settings: Settings,
    openai: OpenAIStandIn,
    model_clock: MovableClock,
    limits: dict[str, int],
    unit: str,
) -> None:
    settings = replace(settings, limits=LimitSettings(**limits))
    work = WORK["queries"]
    openai.script_json(*9 * [work.answer])
    async with opened(settings) as memory:
        assert work.is_of_model(await work.do(memory, BATH))
        while memory.problem is None:
            await work.do(memory, BATH)
        asked = requests(openai)
        assert memory.problem == f"The {unit} of the day are used up; it ends at 00:00 UTC."
        assert not work.is_of_model(await work.do(memory, BATH))

    async with opened(settings) as restarted, opened(settings, "another") as other:
        assert not work.is_of_model(await work.do(restarted, BATH))
        assert requests(openai) == asked
        assert restarted.problem == memory.problem
        assert (other.status.calls, other.problem) == (0, None)

        model_clock.move(hours=12)
        assert work.is_of_model(await work.do(restarted, BATH))
        assert restarted.status.calls == 1


async def test_without_limits_the_budget_is_never_used_up(
    settings: Settings, openai: OpenAIStandIn
) -> None:
    settings = replace(settings, limits=LimitSettings(tenant_model_calls=0, tenant_model_tokens=0))
    openai.script_json(*3 * [WORK["queries"].answer])

    async with opened(settings) as memory:
        for _ in range(3):
            assert WORK["queries"].is_of_model(await expand(memory, BATH))

        assert "today 3 calls and" in str(memory.status)


async def test_a_damaged_count_begins_again(settings: Settings) -> None:
    async with opened(settings) as memory:
        await expand(memory, BATH)
    (file,) = (settings.memory.data_dir / "model-budgets").iterdir()
    file.write_bytes(b'{"day": "today"')

    async with opened(settings) as memory:
        assert memory.status.calls == 0


async def test_a_model_that_fails_is_asked_again_after_longer_and_longer_pauses(
    settings: Settings, openai: OpenAIStandIn, model_clock: MovableClock
) -> None:
    async with opened(settings) as memory:
        openai.trouble = "crashes"
        pauses = []
        for _ in range(12):
            asked, began = requests(openai), model_clock.now
            while requests(openai) == asked:
                await expand(memory, BATH)
                model_clock.move(seconds=FIRST_PAUSE)
            pauses.append((model_clock.now - began).total_seconds())
        openai.trouble = None
        model_clock.move(seconds=LONGEST_PAUSE)
        openai.script_json(*2 * [WORK["queries"].answer])

        assert WORK["queries"].is_of_model(await expand(memory, BATH))
        assert WORK["queries"].is_of_model(await expand(memory, BATH))

    assert pauses[:5] == [FIRST_PAUSE * factor for factor in (1, 1, 2, 4, 8)]
    assert max(pauses) == pauses[-1] == LONGEST_PAUSE


async def test_failures_at_the_same_time_pause_a_model_once(
    settings: Settings, openai: OpenAIStandIn, model_clock: MovableClock
) -> None:
    async with opened(settings) as memory:
        openai.trouble = "crashes"
        await asyncio.gather(*(expand(memory, BATH) for _ in range(5)))
        openai.trouble = None
        model_clock.move(seconds=FIRST_PAUSE)
        openai.script_json(WORK["queries"].answer)

        assert WORK["queries"].is_of_model(await expand(memory, BATH))


async def test_of_work_at_the_same_time_one_tries_a_model_that_failed(
    settings: Settings, openai: OpenAIStandIn, model_clock: MovableClock
) -> None:
    async with opened(settings) as memory:
        openai.fail_next(*4 * [Failure(status=503)])
        await expand(memory, BATH)
        model_clock.move(seconds=FIRST_PAUSE)
        asked = requests(openai)
        openai.script_json(*5 * [WORK["queries"].answer])

        found = await asyncio.gather(*(expand(memory, BATH) for _ in range(5)))

    assert [WORK["queries"].is_of_model(one) for one in found].count(True) == 1
    assert requests(openai) == asked + 1


async def test_one_part_of_the_work_that_fails_does_not_stop_the_others(
    settings: Settings, openai: OpenAIStandIn
) -> None:
    async with opened(settings) as memory:
        openai.fail_next(*4 * [Failure(status=503)])
        await expand(memory, BATH)
        openai.script_json(WORK["answers"].answer)

        assert WORK["answers"].is_of_model(await synthesize(memory, BATH))

        failing = [use.work for use in memory.status.uses if use.problem]
    assert failing == ["queries"]


async def test_a_caller_in_a_hurry_does_not_wait_for_a_model(
    settings: Settings, openai: OpenAIStandIn
) -> None:
    waits_until = caller_waits_until.set(utc_now() + timedelta(seconds=0.25))
    try:
        async with opened(settings) as memory:
            await expand(memory, BATH)
    finally:
        caller_waits_until.reset(waits_until)

    assert requests(openai) == 0


async def test_a_model_of_its_own_does_one_part_of_the_work(
    settings: Settings, openai: OpenAIStandIn
) -> None:
    chosen = replace(
        settings.memory, judge_model="judge", query_model="rules", extraction_model="none"
    )
    openai.models.append("judge")

    async with opened(replace(settings, memory=chosen)) as memory:
        assert [(use.work, use.by) for use in memory.status.uses] == [
            ("extraction", "none"),
            ("judging", "judge"),
            ("queries", "rules"),
            ("answers", "gemma4"),
        ]
        assert memory.models.extractor is None
        assert memory.models.recall.expander is None


@pytest.mark.parametrize("chat", ["auto", "rules"])
async def test_without_a_chat_model_rules_do_the_work_and_nothing_is_wrong(
    tmp_path: Path, ollama: OllamaStandIn, chat: Literal["auto", "rules"]
) -> None:
    ollama.models.clear()
    settings = with_chat(tmp_path, GeneratorSettings(chat=chat, ollama_url=ollama.url))

    async with opened(settings) as memory:
        assert memory.models.judge is None
        assert memory.models.recall.expander is None
        for name in ("extraction", "answers"):
            assert not WORK[name].is_of_model(await WORK[name].do(memory, BATH))

        assert memory.status.uses == [ModelUse(work=name, by="rules") for name in WORK]
        assert str(memory.status) == ", ".join(f"{name} by rules" for name in WORK)
    # A start looks for the chat model, once.
    assert [request.path for request in ollama.requests] == ["/api/show"] * (chat == "auto")
    assert not (settings.memory.data_dir / "model-budgets").exists()


@pytest.mark.parametrize("named", ["chat", "judge"])
async def test_a_model_of_the_settings_that_is_missing_is_named_as_the_problem(
    tmp_path: Path, ollama: OllamaStandIn, named: str
) -> None:
    ollama.models.clear()
    if named == "chat":
        settings = with_chat(tmp_path, GeneratorSettings(chat="ollama", ollama_url=ollama.url))
    else:
        generator = GeneratorSettings(ollama_url=ollama.url)
        settings = with_chat(tmp_path, generator, judge_model="qwen3")

    async with opened(settings) as memory:
        failing = [use.work for use in memory.status.uses if use.problem]

        assert failing == (list(WORK) if named == "chat" else ["judging"])
        assert "ollama pull" in str(memory.problem)


@pytest.mark.usefixtures("worker_here")
async def test_a_stack_whose_endpoint_is_down_works_by_rules_and_says_so(
    settings: Settings, openai: OpenAIStandIn
) -> None:
    openai.stop()
    async with open_stack(settings) as stack:
        await say(stack.bus, BATH)
        await all_read(stack.bus)
        found = await recall(stack.bus, "Where do I live?", source_kinds=["fact"], synthesize=True)
        models = (await status(stack.bus)).models
        doctor = {check.name: check for check in await examination.run_checks(settings)}

    assert contents(found) == [BY_RULES]
    assert (found["answer"]["text"], found["answer"]["by_model"]) == (BY_RULES, False)
    assert models is not None
    failing = {use.work: str(use.problem) for use in models.uses if use.problem}
    assert set(failing) >= {"extraction", "queries", "answers"}
    assert all("No answer from" in problem for problem in failing.values())
    assert doctor["memory's models"].verdict == "note"
    assert "extraction by gemma4 (No answer from" in doctor["memory's models"].detail


@pytest.mark.usefixtures("worker_here")
async def test_a_stack_with_a_chat_model_and_no_other_settings_has_it_work_in_the_memory(
    settings: Settings, openai: OpenAIStandIn, capsys: pytest.CaptureFixture[str]
) -> None:
    openai.script_json(WORK["extraction"].answer)
    async with open_stack(settings) as stack:
        await say(stack.bus, BATH)
        await all_read(stack.bus)
        openai.script_json(WORK["queries"].answer, WORK["answers"].answer)
        found = await recall(stack.bus, "Where do I live?", source_kinds=["fact"], synthesize=True)
        doctor = {check.name: check for check in await examination.run_checks(settings)}
        capsys.readouterr()
        greet(Output(), settings, stack)
        greeting = " ".join(capsys.readouterr().out.split())

    assert contents(found) == ["Bath is where the user lives with two cats."]
    assert (found["answer"]["text"], found["answer"]["by_model"]) == ("In Bath.", True)
    assert doctor["memory's models"].verdict == "ok"
    for said in (doctor["memory's models"].detail, greeting):
        assert "extraction by gemma4, judging by gemma4" in said
        assert "today 3 of 5,000 calls" in said


@pytest.mark.usefixtures("worker_here")
async def test_facts_wait_for_the_judge_until_the_day_after_its_budget_is_used_up(
    settings: Settings, openai: OpenAIStandIn, model_clock: MovableClock
) -> None:
    only_judge = {**WITHOUT_MODELS, "judge_model": "auto", "judge_distance": 2.0}
    memory = replace(settings.memory, **only_judge)
    settings = replace(settings, memory=memory, limits=LimitSettings(tenant_model_calls=1))
    openai.script_json(*2 * [{"verdicts": [{"number": 1, "verdict": "replaces"}]}])
    async with open_stack(settings) as stack:
        ledger = stack.memories.of_tenant("default").ledger

        async def unjudged_facts() -> int:
            return len(await unjudged(ledger))

        async def only(content: str) -> bool:
            found = await recall(stack.bus, "Where do we live?", source_kinds=["fact"])
            return await unjudged_facts() == 0 and contents(found) == [content]

        for city in ("Berlin", "Rome"):
            fact = {"content": f"We live in {city} now", "scope": "user"}
            assert (await call_tool(stack.bus, "remember_fact", fact, caller=CALLER)).ok
        await eventually(lambda: only("We live in Rome now"))
        paris = {"content": "We live in Paris now", "scope": "user"}
        assert (await call_tool(stack.bus, "remember_fact", paris, caller=CALLER)).ok
        found = await recall(stack.bus, "Where do we live?", source_kinds=["fact"])
        models = (await status(stack.bus)).models
        assert (requests(openai), await unjudged_facts()) == (1, 1)
        assert sorted(contents(found)) == ["We live in Paris now", "We live in Rome now"]
        assert models is not None
        assert "judging by gemma4 (The 1 calls of the day are used up" in str(models)

        model_clock.move(hours=12)
        await eventually(lambda: only("We live in Paris now"))
