"""Each client's hooks exchange memories and turns of a session with a live stack.

Top memories and search results reach the model, and every finished turn is stored once,
without the context that the model was given.
"""

import asyncio
import json
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple
from unittest.mock import AsyncMock

import pytest
import pytest_asyncio

from commands import local2
from local2.bus.connection import Connection
from local2.bus.streams import publish_durably
from local2.client.access import ask_service
from local2.client.shared_stack import FileLock
from local2.client.tools import call_tool
from local2.errors import BusError, ForbiddenError
from local2.examination.installation import check_hooks
from local2.hook_files import LOG_FILE, counted_prompts
from local2.hooks import acting, context, delivery
from local2.hooks.acting import Hooks
from local2.hooks.clients import CLIENTS
from local2.hooks.delivery import deliver
from local2.hooks.state import Outbox, Situation
from local2.protocol.envelope import Sender, new_id, seal
from local2.protocol.payloads import Generation
from local2.protocol.services import SHOWN
from local2.protocol.showings import FindShowings
from local2.stack.app import Stack
from recorded_hooks import CLIENT_NAMES, first, payloads
from stacks import settings_in
from waiting import eventually
from workers import stack_with_worker_here

UNLIMITED = 1e6
"""Seconds; effectively no deadline, since these tests do not measure speed."""
DELIVERY_SECONDS = 60.0
"""Seconds for a separate process to start, connect and deliver."""
KNOWN = "All services are deployed with Nomad."
ANSWERS = {
    "claude-code": "RabbitMQ",
    "codex": "golangci-lint",
    "cursor": "Consul",
}

RunHook = Callable[..., Awaitable[str | None]]


pytestmark = pytest.mark.asyncio(loop_scope="module")


class Theirs(NamedTuple):
    """The memory of one user on the stack that all tests share."""

    bus: Connection
    user: str

    async def call(self, tool: str, *, session: str | None = None, **args: Any) -> Any:
        caller = Sender(user=self.user, agent="test", session_id=session)
        result = await call_tool(self.bus, tool, args, caller=caller)
        assert result.ok, result.content
        return result.data

    async def stored_turns(self, query: str) -> list[dict[str, Any]]:
        """Return the stored questions with their answers."""
        hits: list[dict[str, Any]] = (await self.call("search_memory", query=query))["hits"]
        return [hit for hit in hits if hit["content"].startswith("Q: ")]

    async def delivered(self, home: Path, query: str) -> list[dict[str, Any]]:
        """Wait until everything is delivered, and return what a search finds."""
        outbox = Outbox(Situation.of(home, None).turns)
        await eventually(lambda: outbox.is_empty, within=DELIVERY_SECONDS)
        await eventually(partial(self.stored_turns, query), within=DELIVERY_SECONDS)
        return await self.stored_turns(query)


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def stack(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Stack]:
    settings = settings_in(tmp_path_factory.mktemp("stack"))
    async with stack_with_worker_here(settings, with_generator=False) as running:
        yield running


@pytest.fixture
def theirs(stack: Stack, tmp_path: Path) -> Theirs:
    """The memory of somebody whose hooks use the stack."""
    (tmp_path / "config").mkdir()
    (tmp_path / "config" / "bus.yaml").write_text(f"url: {stack.url}\n")
    return Theirs(stack.bus, f"user-{new_id()}")


@pytest.fixture(autouse=True)
def without_deadlines(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(acting, "PROMPT_SECONDS", UNLIMITED)
    monkeypatch.setattr(acting, "START_SECONDS", UNLIMITED)


@pytest.fixture(params=CLIENT_NAMES)
def client(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def run_hook(client: str, theirs: Theirs, tmp_path: Path) -> RunHook:
    """Return a function that runs the client's hook on a payload, and returns its context."""
    client_hooks = CLIENTS[client]

    async def act(
        payload: dict[str, Any], deliver: Callable[[Situation], None] = in_this_process
    ) -> str | None:
        event = client_hooks.read(json.dumps(payload).encode())
        assert event is not None
        hooks = Hooks(client_hooks, Situation.of(tmp_path, theirs.user), deliver)
        return await asyncio.to_thread(hooks.act, event)

    return act


def in_this_process(situation: Situation) -> None:
    asyncio.run(deliver(situation))


async def test_a_session_starts_with_the_top_memories(
    theirs: Theirs, run_hook: RunHook, client: str, tmp_path: Path
) -> None:
    await theirs.call("remember_fact", content=KNOWN, importance=0.9, scope="user")

    context = await run_hook(payloads(client, tmp_path)[0])

    assert context is not None
    assert KNOWN in context


async def test_a_session_without_memories_starts_without_a_context(
    run_hook: RunHook, client: str, tmp_path: Path
) -> None:
    assert await run_hook(payloads(client, tmp_path)[0]) is None


async def test_a_prompt_adds_search_results_if_the_client_accepts_a_context(
    theirs: Theirs, run_hook: RunHook, client: str, tmp_path: Path
) -> None:
    prompt = first(client, tmp_path, "UserPromptSubmit")
    await theirs.call("ingest", messages=[{"role": "assistant", "content": prompt["prompt"]}])

    context = await run_hook(prompt)

    if CLIENTS[client].prompts_take_contexts:
        assert context is not None
        assert prompt["prompt"] in context
    else:
        assert context is None


@pytest.mark.parametrize("client", ["claude-code"])
async def test_the_first_prompt_adds_top_memories_if_the_start_could_not(
    theirs: Theirs, run_hook: RunHook, client: str, tmp_path: Path
) -> None:
    await theirs.call("remember_fact", content=KNOWN, importance=0.9, scope="user")
    prompt = first(client, tmp_path, "UserPromptSubmit")

    assert "<pre-seeded-memories>" in (await run_hook(prompt) or "")
    assert "<pre-seeded-memories>" not in (await run_hook(prompt) or "")


@pytest.mark.parametrize("client", ["claude-code"])
async def test_a_prompt_has_its_context_however_slowly_the_hook_began(
    theirs: Theirs, run_hook: RunHook, client: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(acting, "BEGAN", time.monotonic() - 60)
    monkeypatch.setattr(acting, "PROMPT_SECONDS", 0.25)
    monkeypatch.setattr(acting, "ASKING_SECONDS", UNLIMITED)
    await theirs.call("remember_fact", content=KNOWN, importance=0.9, scope="user")

    assert KNOWN in (await run_hook(first(client, tmp_path, "UserPromptSubmit")) or "")


@pytest.mark.parametrize("client", ["claude-code"])
async def test_a_prompt_whose_recall_is_refused_is_counted_without_a_context(
    theirs: Theirs, run_hook: RunHook, client: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    prompt = first(client, tmp_path, "UserPromptSubmit")
    await theirs.call("remember_fact", content=KNOWN, importance=0.9, scope="user")

    with monkeypatch.context() as late:
        late.setattr(context, "utc_now", lambda: datetime(2026, 1, 1, tzinfo=UTC))
        assert await run_hook(prompt) is None

    counted = counted_prompts(tmp_path / ".local2")[client]
    assert (counted.prompts, counted.without) == (1, 1)
    assert "recall: deadline_exceeded" in (counted.last_problem or "")
    assert "<pre-seeded-memories>" in (await run_hook(prompt) or ""), "the next one has them"


async def test_a_finished_turn_is_stored_once(
    theirs: Theirs, run_hook: RunHook, client: str, tmp_path: Path
) -> None:
    session = payloads(client, tmp_path)
    ends = [one for one in session if one["hook_event_name"].lower() == "stop"]
    for payload in [*session[:-1], *ends, session[-1]]:
        await run_hook(payload)

    (turn,) = await theirs.delivered(tmp_path, ANSWERS[client])
    assert ANSWERS[client] in turn["content"]
    assert turn["metadata"]["agent"] == client
    assert turn["metadata"]["project"] == str(tmp_path)


@pytest.mark.parametrize("client", ["claude-code"])
async def test_a_later_answer_replaces_the_earlier_one(
    theirs: Theirs, run_hook: RunHook, client: str, tmp_path: Path
) -> None:
    stop = first(client, tmp_path, "Stop")
    await run_hook(first(client, tmp_path, "UserPromptSubmit"))
    await run_hook({**stop, "last_assistant_message": "I look for the broker."})
    await run_hook(stop)

    async def revised() -> bool:
        found = await theirs.stored_turns("invoice worker broker")
        return [ANSWERS[client] in turn["content"] for turn in found] == [True]

    await eventually(revised, within=DELIVERY_SECONDS)


@pytest.mark.parametrize("client", ["cursor"])
async def test_an_answer_is_stored_with_its_own_turn(
    theirs: Theirs, run_hook: RunHook, client: str, tmp_path: Path
) -> None:
    _, prompt, *answers, stop, _ = payloads(client, tmp_path)
    for payload in (prompt, *answers, stop):
        await run_hook(payload)
    later = {"generation_id": "later"}
    await run_hook({**prompt, **later, "prompt": "Which port does the shop listen on?"})
    await run_hook({**answers[0], **later, "text": "It listens on 8443."})
    await run_hook({**answers[0], "text": "This is of the turn before."})
    await run_hook({**stop, **later})

    async def of_the_port() -> list[str]:
        turns = await theirs.delivered(tmp_path, "the shop listens on port 8443")
        return [turn["content"] for turn in turns if "8443" in turn["content"]]

    await eventually(of_the_port, within=DELIVERY_SECONDS)
    expected = "Q: Which port does the shop listen on?\nA: It listens on 8443."
    assert await of_the_port() == [expected]


@pytest.mark.parametrize("client", ["claude-code", "codex"])
async def test_the_context_given_to_the_model_is_never_stored(
    theirs: Theirs, run_hook: RunHook, client: str, tmp_path: Path
) -> None:
    await theirs.call("remember_fact", content=KNOWN, importance=0.9, scope="user")
    context = await run_hook(payloads(client, tmp_path)[0])
    prompt, stop = (first(client, tmp_path, event) for event in ("UserPromptSubmit", "Stop"))
    await run_hook({**prompt, "prompt": f"{context}\n{prompt['prompt']}"})
    answer = f"{stop['last_assistant_message']}\n{context}"
    await run_hook({**stop, "last_assistant_message": answer})

    (turn,) = await theirs.delivered(tmp_path, ANSWERS[client])

    assert turn["content"] == f"Q: {prompt['prompt']}\nA: {stop['last_assistant_message']}"


@pytest.mark.parametrize("client", ["codex"])
async def test_an_answer_that_repeats_a_memory_is_marked_and_its_turn_keeps_what_was_shown(
    theirs: Theirs, run_hook: RunHook, client: str, tmp_path: Path
) -> None:
    fact = await theirs.call("remember_fact", content=KNOWN, importance=0.9, scope="user")
    prompt = {**first(client, tmp_path, "UserPromptSubmit"), "prompt": "How do we deploy?"}
    await run_hook(prompt)
    await run_hook({**first(client, tmp_path, "Stop"), "last_assistant_message": KNOWN})

    (turn,) = await theirs.delivered(tmp_path, "How do we deploy?")

    assert turn["metadata"]["recalled"] is True
    wanted = FindShowings(query_id=turn["metadata"]["query_id"])
    (shown,) = (await ask_service(theirs.bus, SHOWN, wanted, Sender(user=theirs.user))).showings
    assert shown.answer == turn["id"]
    assert [memory.id for memory in shown.memories] == [fact["id"]]

    later = {"turn_id": "later"}
    await run_hook({**prompt, **later, "prompt": "Who painted the Mona Lisa?"})
    answer = {"last_assistant_message": "Leonardo da Vinci."}
    await run_hook({**first(client, tmp_path, "Stop"), **later, **answer})
    await theirs.delivered(tmp_path, "Who painted the Mona Lisa?")
    wanted = FindShowings(query_id="later")
    found = (await ask_service(theirs.bus, SHOWN, wanted, Sender(user=theirs.user))).showings
    assert [memory.id for one in found for memory in one.memories] == []


@pytest.mark.parametrize("client", ["claude-code"])
async def test_messages_of_the_session_are_not_recalled_until_it_is_compacted(
    theirs: Theirs, run_hook: RunHook, client: str, tmp_path: Path
) -> None:
    start, prompt, stop, compacting = payloads(client, tmp_path)[:4]
    for payload in (start, prompt, stop):
        await run_hook(payload)
    await theirs.delivered(tmp_path, ANSWERS[client])

    assert ANSWERS[client] not in (await run_hook(prompt) or "")
    await run_hook(compacting)
    await run_hook(start)  # resumed later: it is compacted all the same
    assert ANSWERS[client] in (await run_hook(prompt) or "")


@pytest.mark.parametrize("client", ["claude-code"])
async def test_a_prompt_of_the_same_session_does_not_displace_what_earlier_sessions_know(
    theirs: Theirs, run_hook: RunHook, client: str, tmp_path: Path
) -> None:
    known = "Our message broker was chosen by Tom."
    others = [f"The lunch menu of day {day} has soup." for day in range(20)]
    messages = [{"role": "user", "content": text} for text in (known, *others)]
    await theirs.call("ingest", messages=messages, session_id="may")
    prompt = first(client, tmp_path, "UserPromptSubmit")
    await run_hook(prompt)
    await run_hook(first(client, tmp_path, "Stop"))
    await theirs.delivered(tmp_path, ANSWERS[client])

    assert known in (await run_hook(prompt) or "")


@pytest.mark.parametrize("client", ["claude-code"])
async def test_messages_of_the_client_to_itself_are_not_stored_as_turns(
    theirs: Theirs, run_hook: RunHook, client: str, tmp_path: Path
) -> None:
    session = payloads(client, tmp_path)
    for payload in session:
        await run_hook(payload)

    await theirs.delivered(tmp_path, ANSWERS[client])
    assert await theirs.stored_turns("The build passed.") == []


@pytest.mark.parametrize("client", ["claude-code"])
async def test_an_interrupted_prompt_does_not_get_the_answer_of_another_turn(
    theirs: Theirs, run_hook: RunHook, client: str, tmp_path: Path
) -> None:
    prompt = first(client, tmp_path, "UserPromptSubmit")
    await run_hook({**prompt, "prompt": "Rewrite everything in Ada."})
    await run_hook(prompt)
    await run_hook(first(client, tmp_path, "Stop"))

    (turn,) = await theirs.delivered(tmp_path, ANSWERS[client])
    assert "Ada" not in turn["content"]


@pytest.mark.parametrize("client", ["codex"])
async def test_the_late_end_of_a_turn_does_not_end_the_next_one(
    run_hook: RunHook, client: str, tmp_path: Path
) -> None:
    prompt = first(client, tmp_path, "UserPromptSubmit")
    await run_hook(prompt)
    await run_hook({**prompt, "turn_id": "later", "prompt": "Which port does the shop use?"})

    await run_hook(first(client, tmp_path, "Stop"), deliver=lambda _: None)

    assert Outbox(Situation.of(tmp_path, None).turns).is_empty


@pytest.mark.parametrize("client", ["claude-code"])
async def test_an_ended_session_leaves_no_files(
    run_hook: RunHook, client: str, tmp_path: Path
) -> None:
    for payload in payloads(client, tmp_path):
        await run_hook(payload)

    left = {file.name for file in (tmp_path / ".local2" / "hooks").rglob("*") if file.is_file()}
    assert left == {"lock"}


@pytest.mark.parametrize("client", ["claude-code"])
async def test_the_end_of_a_session_delivers_what_was_kept_while_no_stack_ran(
    theirs: Theirs, run_hook: RunHook, client: str, tmp_path: Path
) -> None:
    *session, end = payloads(client, tmp_path)
    for payload in session:
        await run_hook(payload, deliver=lambda _: None)
    assert await theirs.stored_turns(ANSWERS[client]) == []

    await run_hook(end)

    (turn,) = await theirs.delivered(tmp_path, ANSWERS[client])
    assert ANSWERS[client] in turn["content"]


def put_turn(outbox: Outbox, user: str, query_id: str, query: str | None = None) -> None:
    """Leave a finished turn to be delivered."""
    query = query or f"{query_id}?"
    turn = Generation(query=query, answer=KNOWN, session_id="s1", query_id=query_id)
    outbox.put(
        seal(
            turn,
            type="response",
            source="codex",
            user=user,
            session_id=turn.session_id,
            query_id=query_id,
        )
    )


async def test_a_turn_that_could_not_be_delivered_waits_for_the_next_delivery(
    theirs: Theirs, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    situation = Situation.of(tmp_path, None)
    outbox = Outbox(situation.turns)
    put_turn(outbox, theirs.user, "How do we deploy")
    refusal = AsyncMock(side_effect=BusError("JetStream is full."))
    with monkeypatch.context() as patch:
        patch.setattr(delivery, "publish_durably", refusal)
        with pytest.raises(BusError):
            await deliver(situation)
    assert not outbox.is_empty
    with FileLock(situation.turns / "lock") as lock:  # of another process
        assert lock.try_to_lock()
        await deliver(situation)
    assert not outbox.is_empty

    await deliver(situation)

    (delivered,) = await theirs.delivered(tmp_path, "How do we deploy?")
    assert KNOWN in delivered["content"]


async def test_a_turn_larger_than_a_message_is_stored_and_its_rest_is_found_and_read(
    theirs: Theirs, tmp_path: Path
) -> None:
    situation = Situation.of(tmp_path, None)
    log = "".join(f"Line {number}: all is well.\n" for number in range(45_000))
    middle = len(log) // 4
    pasted = f"Why does this fail?\n{log[:middle]}The zeppelin leaks helium.\n{log[middle:]}"
    put_turn(Outbox(situation.turns), theirs.user, "Why", pasted)

    await deliver(situation)

    (turn,) = await theirs.delivered(tmp_path, "Why does this fail?")
    assert KNOWN in turn["content"]

    async def rest_found() -> list[dict[str, Any]]:
        items = (await theirs.call("recall", query="zeppelin helium"))["items"]
        return [item for item in items if "The zeppelin leaks helium." in item["content"]]

    await eventually(rest_found, within=DELIVERY_SECONDS)
    (found,) = await rest_found()
    key, end = found["tool_output_key"], len(pasted) - 40
    rest = await theirs.call("read_tool_output", tool_output_key=key, offset=end)
    assert (rest["content"], rest["total_chars"]) == (pasted[end:], len(pasted))


async def test_turns_that_can_never_be_stored_are_put_aside_and_shown_and_hold_up_no_other(
    theirs: Theirs, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    situation = Situation.of(tmp_path, None)
    outbox = Outbox(situation.turns)
    for query_id in ("Forbidden", "Who deploys"):
        put_turn(outbox, theirs.user, query_id)
    (situation.turns / "broken.json").write_bytes(b"{")

    async def refuse_one(bus: Connection, subject: str, data: bytes) -> None:
        if b"Forbidden" in data:
            raise ForbiddenError("This user may not store turns.")
        await publish_durably(bus, subject, data)

    monkeypatch.setattr(delivery, "publish_durably", refuse_one)
    await deliver(situation)

    assert [turn["content"] for turn in await theirs.delivered(tmp_path, "Who deploys?")] == [
        f"Q: Who deploys?\nA: {KNOWN}"
    ]
    aside = {file.stem: file.read_text() for file in situation.turns.glob("*.aside")}
    assert aside.pop("broken") == "{"
    (refused,) = aside.values()
    assert KNOWN in refused
    logged = (tmp_path / ".local2" / LOG_FILE).read_text()
    assert "delivery: This user may not store turns." in logged
    listed = local2(tmp_path, "--home", str(tmp_path), "hooks", "list").stdout
    (checked,) = check_hooks(situation.settings.memory.data_dir)
    for shown in (listed, checked.detail):
        assert "Finished turns that could not be stored: 2" in " ".join(shown.split())
