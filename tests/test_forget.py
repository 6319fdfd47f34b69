"""Forgetting on the live stack: nothing that was sent through any channel is found afterwards.

It is in no file either. What other users sent stays unchanged.
"""

import json
from collections.abc import AsyncIterator, Sequence
from contextlib import suppress
from itertools import count
from pathlib import Path
from typing import Any

import msgspec
import pytest

from calling import answer, ask, call, caller_named
from factories import StartWorker
from local2.bus.connection import Connection, connect
from local2.bus.dead_letters import store_dead_letter
from local2.bus.server import EmbeddedServer
from local2.bus.stream_erasure import StreamErasure
from local2.bus.streams import ensure_streams, publish_durably
from local2.client.tools import call_tool
from local2.ledger.operations import erasures
from local2.logs import logging_to
from local2.memory.tenant import Memory
from local2.protocol.envelope import Caller, Sender, utc_now
from local2.protocol.payloads import DeadLetter, Json, ToolProgress
from local2.stack.app import Stack, open_stack
from stacks import contents, in_step, recall, search, settings_in, status
from turns import all_done
from waiting import eventually

pytestmark = pytest.mark.usefixtures("worker_here")

SESSION = "zqsession-of-richard"
RICHARD = caller_named("zqrichard", agent="zqagent", session_id=SESSION)
LOGGED = ["zqagent"]
"""Names of calling programs, which the log may contain."""
EVE = caller_named("eve", agent="other", session_id="s-eve")


class Markers:
    """Unique words; `of` makes a sentence with a new one."""

    def __init__(self) -> None:
        self._numbers = count(1000)
        names = [RICHARD.user or "", SESSION, "zqagent"]
        self.words = [*names, *(name.encode().hex() for name in names)]

    def word(self) -> str:
        self.words.append(f"zqmark{next(self._numbers)}x")
        return self.words[-1]

    def of(self, about: str) -> str:
        return f"About the {about} it was said that {self.word()} matters a lot."


def places(folder: Path, words: list[str]) -> dict[str, list[str]]:
    """Return the words that files contain, by file."""
    found: dict[str, list[str]] = {}
    for file in folder.rglob("*"):
        with suppress(FileNotFoundError):  # a server removes files while they are listed
            if file.is_file():
                found[str(file.relative_to(folder))] = _in(file.read_bytes(), words)
    return {name: there for name, there in found.items() if there and there != LOGGED}


async def vanished(folder: Path, words: list[str]) -> None:
    """Wait until no file contains these words; a failure names the files that do."""
    with suppress(AssertionError):
        await eventually(lambda: not places(folder, words))
    assert not places(folder, words)


def _in(data: bytes, words: list[str]) -> list[str]:
    lowered = data.lower()
    return [word for word in words if word.lower().encode() in lowered]


@pytest.fixture
async def stack(tmp_path: Path) -> AsyncIterator[Stack]:
    logs = tmp_path / ".local2" / "logs"
    with logging_to(logs / "stack.log"):
        async with open_stack(settings_in(tmp_path), with_generator=False) as running:
            yield running


def turn(caller: Caller, query_id: str, **payload: Any) -> bytes:
    envelope = {"user": caller.user, "session_id": caller.session_id, "source": caller.agent}
    return json.dumps({**envelope, "payload": {"query_id": query_id, **payload}}).encode()


async def say_everything(stack: Stack, caller: Caller, markers: Markers) -> None:
    """Send something through every channel that there is."""
    bus, new = stack.bus, markers.of
    messages: list[Json] = [
        {"role": "user", "content": new("message"), "id": markers.word(), "name": markers.word()},
        {"role": "assistant", "content": "", "tool_calls": [
            {"id": markers.word(), "name": markers.word(), "args": {"of": new("argument")},
             "content": new("result")}]},
        {"role": "system", "content": new("instruction")},
        {"role": "user", "content": new("edited message"), "id": "edited"},
    ]  # fmt: skip
    await call(bus, "ingest", {"messages": messages}, caller)
    edited = {"role": "user", "content": new("newer text"), "id": "edited"}
    await call(bus, "ingest", {"messages": [edited]}, caller)
    for _ in range(2):
        topic = f"user.colour_of_{caller.user}"
        await answer(bus, "save_topic", {"topic": topic, "content": new("topic")}, caller)
    markers.words.append(topic)
    for scope in ("user", "agent", "tenant"):
        fact = {"content": new(f"fact of {scope}"), "scope": scope}
        await answer(bus, "remember_fact", fact, caller)
    triplet = {"subject": markers.word(), "predicate": "likes", "object": markers.word()}
    await answer(bus, "add_knowledge", {"facts": [triplet], "scope": "user"}, caller)
    noted = {"content": new("saved memory"), "metadata": {"kept": markers.word()}}
    await answer(bus, "save_memory", noted, caller)
    for _ in range(20):
        note = {"content": new("note"), "role": markers.word()}
        await answer(bus, "note", note, caller)
    document = {
        "title": markers.word(),
        "source": markers.word(),
        "content": f"# {markers.word()}\n\n{new('document')}",
    }
    await answer(bus, "add_document", document, caller)
    key = f"tout_{hash(caller.user) & (2**96 - 1):024x}"
    part = {"key": key, "offset": 0, "text": new("long output") * 400, "last": True}
    envelope = {"user": caller.user, "session_id": caller.session_id, "payload": part}
    await bus.request("memory.output.keep", json.dumps(envelope).encode())
    calls = [{"name": markers.word(), "args": {"a": new("call")}, "content": new("called"),
              "tool_output_key": key}]  # fmt: skip
    exchange = {"query": new("question"), "answer": new("answer"), "tool_calls": calls}
    id_ = markers.word()
    await publish_durably(bus, "response.generation", turn(caller, id_, **exchange))
    revised = {**exchange, "answer": new("revised answer")}
    await publish_durably(bus, "response.generation", turn(caller, id_, **revised))
    for rated in (id_, markers.word()):  # the second waits for its turn
        rating = {"score": 1, "comment": new("comment")}
        await publish_durably(bus, "response.feedback", turn(caller, rated, **rating))
    await publish_durably(
        bus, "response.generation", turn(caller, "garbled", query=None, answer=new("dead letter"))
    )
    question = turn(caller, markers.word(), query=new("unanswered question"))
    await bus.publish("query.received", question)
    await all_done(bus)


async def letters(stack: Stack) -> int:
    return (await status(stack.bus)).dead_letters


async def forget(bus: Connection, caller: Caller, **args: object) -> Json:
    return await call(bus, "forget", args, caller)


async def test_nothing_of_a_forgotten_user_is_found_anywhere_or_left_in_any_file(
    stack: Stack, tmp_path: Path
) -> None:
    markers, others = Markers(), Markers()
    others.words = []
    others._numbers = count(500_000)
    await say_everything(stack, RICHARD, markers)
    await say_everything(stack, EVE, others)
    await in_step(stack.bus)
    assert places(tmp_path, markers.words)
    before = await memory_of(stack, EVE, but=markers.words)

    receipt = await forget(stack.bus, RICHARD, everything=True)

    assert receipt["complete"], receipt
    erased = receipt["erased"]
    assert {"messages", "facts", "notes", "episodes", "tool results", "ratings"} <= set(erased)
    assert {"long tool outputs", "document chunks", "turns and dead letters"} <= set(erased)
    await vanished(tmp_path, markers.words)
    found = await recall(stack.bus, "zqmark said matters", caller=RICHARD, top_k=20)
    assert not _in(json.dumps(found).encode(), markers.words)
    after = await memory_of(stack, EVE)
    assert before[0] == after[0]
    assert set(before[1]) <= set(after[1])
    assert set(others.words) == {
        word for there in places(tmp_path, others.words).values() for word in there
    }
    assert await letters(stack) == 1


async def memory_of(
    stack: Stack, caller: Caller, *, but: Sequence[str] = ()
) -> tuple[Json, list[str]]:
    """Return a user's session and search results, without what others stated for everybody."""
    session = await call(stack.bus, "load_session", {}, caller)
    found = await recall(stack.bus, "said matters lot", caller=caller, top_k=20)
    hits = await search(stack.bus, "said matters lot", caller=caller)
    topic = f"user.colour_of_{caller.user}"
    history = await call(stack.bus, "memory_history", {"topic_or_id": topic}, caller)
    texts = [*contents(found), *contents(hits), *(one["content"] for one in history["versions"])]
    memories = [one for one in session.pop("memories") if not _in(json.dumps(one).encode(), [*but])]
    return {**session, "memories": memories}, [t for t in texts if not _in(t.encode(), [*but])]


async def test_forgetting_a_session_removes_its_facts_and_leaves_the_other_session(
    stack: Stack, tmp_path: Path
) -> None:
    other = msgspec.structs.replace(RICHARD, session_id="another")
    await call(
        stack.bus, "ingest", {"messages": [user_message("The shed is red zqgone.")]}, RICHARD
    )
    await call(stack.bus, "ingest", {"messages": [user_message("The shed is old.")]}, other)
    await answer(stack.bus, "note", {"content": "zqgone is noted."}, RICHARD)

    receipt = await forget(stack.bus, other, session_id=SESSION)

    assert receipt["complete"], receipt
    assert receipt["erased"] == {"messages": 1, "notes": 1}
    await vanished(tmp_path, ["zqgone", SESSION])
    assert contents(await recall(stack.bus, "shed", caller=RICHARD)) == ["The shed is old."]


async def test_a_dry_run_counts_what_would_be_erased_and_changes_nothing(stack: Stack) -> None:
    markers = Markers()
    await say_everything(stack, RICHARD, markers)
    await in_step(stack.bus)
    before = await memory_of(stack, RICHARD)

    preview = await forget(stack.bus, RICHARD, everything=True, dry_run=True)

    assert (preview["dry_run"], preview["complete"]) == (True, False)
    assert await memory_of(stack, RICHARD) == before
    receipt = await forget(stack.bus, RICHARD, everything=True)
    assert receipt["erased"] == preview["erased"]


@pytest.mark.usefixtures("tools")
async def test_a_caller_cannot_erase_another_users_memory(bus: Connection) -> None:
    stated = {"scope": "tenant", "content": "The deadline is in May.", "topic": "project.deadline"}
    fact = await call(bus, "remember_fact", stated, EVE)
    (message,) = (await call(bus, "ingest", {"messages": [user_message("Mine.")]}, EVE))["ids"]

    for id_ in (fact["id"], message):
        refused = await ask(bus, "forget", {"id": id_}, RICHARD)
        assert refused.outcome == "invalid_arguments"
    nothing = [
        await forget(bus, RICHARD, topic="project.deadline"),
        await forget(bus, RICHARD, session_id=EVE.session_id),
        await forget(bus, RICHARD, everything=True),
    ]

    assert [one["erased"] for one in nothing] == [{}, {}, {}]
    assert len(contents(await recall(bus, "deadline mine", caller=EVE))) == 2


@pytest.mark.usefixtures("tools")
async def test_a_caller_receives_the_progress_of_an_erasure(
    bus: Connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(erasures, "ROWS_PER_TRANSACTION", 2)
    messages = [user_message(f"Rake number {number} is bent.") for number in range(5)]
    await call(bus, "ingest", {"messages": messages}, RICHARD)
    progress: list[tuple[float, float | None]] = []

    async def receive(update: ToolProgress) -> None:
        progress.append((update.progress, update.total))

    await call_tool(bus, "forget", {"session_id": SESSION}, caller=RICHARD, on_progress=receive)

    assert progress == [(2, 5), (4, 5), (5, 5)]


@pytest.mark.parametrize("selection", [{"everything": True}, {"session_id": SESSION}])
async def test_a_turn_that_waited_elsewhere_while_its_user_forgot_is_not_stored(
    stack: Stack, selection: Json
) -> None:
    said = utc_now()
    await forget(stack.bus, RICHARD, **selection)

    for query_id, at in (("before", said), ("after", utc_now())):
        late = turn(RICHARD, query_id, query=f"Where is the key {query_id}?", answer="Here.")
        timed = json.dumps({**json.loads(late), "timestamp_utc": at.isoformat()}).encode()
        await publish_durably(stack.bus, "response.generation", timed)
    await all_done(stack.bus)

    session = await call(stack.bus, "load_session", {}, RICHARD)
    assert [one["content"] for one in session["messages"]] == ["Where is the key after?", "Here."]


async def test_without_the_vector_worker_the_removal_waits_and_the_receipt_says_so(
    memory: Memory, start_worker: StartWorker
) -> None:
    mine = memory.of(RICHARD)
    await mine.intake.store_episode("The key hangs behind the clock.")

    receipt = await mine.erasure.erase(mine.erasure.selection(everything=True))

    (index,) = [check for check in receipt.checks if check.found]
    assert (index.name, receipt.complete) == ("vector index", False)
    assert [one.kind for one in await memory.ledger.backlog.counts()] == ["unindex"]
    await start_worker()

    await eventually(memory.ledger.backlog.counts, lambda found: found == [])
    receipt = await mine.erasure.erase(mine.erasure.selection(everything=True))
    assert receipt.complete


def user_message(content: str) -> Json:
    return {"role": "user", "content": content}


async def test_turns_waiting_in_jetstream_are_erased_there(
    server: EmbeddedServer, tmp_path: Path
) -> None:
    """They are not stored yet, and the other user's turns stay in the stream."""
    async with connect(server.url, name="test") as bus:
        await ensure_streams(bus, "default")
        for caller in (RICHARD, EVE):
            message = turn(caller, "q1", query="Where?", answer=f"{caller.user} zqwaits.")
            await publish_durably(bus, "response.generation", message)
        streams = StreamErasure(bus, "default")
        sender = Sender(user=RICHARD.user)

        assert (await streams.count(sender), await streams.erase(sender)) == (1, 1)

        assert (await streams.count(sender), await streams.count(Sender(user="eve"))) == (0, 1)
        files = places(tmp_path, ["zqrichard zqwaits", "eve zqwaits"])
        assert list(files.values()) == [["eve zqwaits"]]


@pytest.mark.parametrize(
    "message",
    [
        b'{"user": "zqrichard", "payload": {"session_id": "s1", "query": null}}',
        b'{"user": "zqrichard", "session_id": "s1", "payload": "text"}',
        b'{"user": "zqrichard", "payload": {"session_id": "s1", "query": "cut off here',
        b'{"user": "zqrichard", "session_id": "s1", "payload": {"user": "\\ud800"',
        b'{"session_id": "\\x", "user": "zqrichard", "payload": {"session_id": "s1", "query": "',
    ],
)
async def test_an_unreadable_message_is_attributed_to_its_sender(
    server: EmbeddedServer, message: bytes
) -> None:
    async with connect(server.url, name="test") as bus:
        await ensure_streams(bus, "default")
        letter = DeadLetter(subject="response.generation", reason="No.", message=message.decode())
        await store_dead_letter(bus, letter, source="test", message_id=None, tenant="default")
        streams = StreamErasure(bus, "default")

        assert await streams.count(Sender(user="zqrichard", session_id="s2")) == 0
        assert await streams.count(Sender(user="zqrichard", session_id="s1")) == 1
        assert await streams.count(Sender(user="zqrichard")) == 1
