"""Several stacks serve one bus and one ledger at the same time, and any of them may go."""

import asyncio
import os
import re
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any, NamedTuple

import msgspec
import pytest
import pytest_asyncio

from commands import local2
from local2.bus.connection import BusMessage, Connection, connect
from local2.bus.server import embedded_server
from local2.bus.streams import publish_durably, turns_stored
from local2.client.access import ask_service
from local2.client.tools import call_tool
from local2.errors import LeaseHeldError
from local2.examination.stack import check_stack
from local2.home import RUNTIME_FILE, Runtime, stack_name
from local2.memory.recall.recaller import RecallRequest
from local2.protocol.envelope import Caller, encode, seal
from local2.protocol.maintenance import BackupRequest, CheckResult
from local2.protocol.payloads import Empty, Generation, ToolCallRecord
from local2.protocol.services import FINDINGS, SHOWN
from local2.protocol.showings import FindShowings
from local2.stack.app import Stack, open_stack
from postgres_server import PostgresServer
from stacks import CALLER, contents, in_step, recall, save, settings_in, status
from waiting import eventually
from workers import stack_with_worker_here

pytestmark = pytest.mark.asyncio(loop_scope="module")
LOOPS = 12


class Together(NamedTuple):
    """Two stacks that share a ledger and a bus, and a client of that bus."""

    stacks: list[Stack]
    client: Connection
    url: str
    ledger: str
    folder: Path


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def together(
    tmp_path_factory: pytest.TempPathFactory, postgres_databases: PostgresServer
) -> AsyncIterator[Together]:
    folder = tmp_path_factory.mktemp("together")
    async with AsyncExitStack() as resources:
        ledger = resources.enter_context(postgres_databases.new_database())
        running = embedded_server(folder / "nats", host="127.0.0.1", port=-1)
        url = (await resources.enter_async_context(running)).url
        stacks = [
            await resources.enter_async_context(
                stack_with_worker_here(settings_in(folder / name, bus_url=url, ledger=ledger))
            )
            for name in ("one", "two")
        ]
        client = await resources.enter_async_context(connect(url, name="test"))
        yield Together(stacks, client, url, ledger, folder)


async def requests_of(bus: Connection, participant: str) -> list[int]:
    """Return how many requests each stack's participant of this name has received."""
    answers: list[BusMessage] = []

    async def receive(message: BusMessage) -> None:
        answers.append(message)

    inbox = bus.client.new_inbox()
    subscription = await bus.subscribe(inbox, receive)
    await bus.publish(f"$SRV.STATS.{participant}", b"", reply=inbox)
    await eventually(lambda: len(answers) >= 2)
    await subscription.stop(grace=0)
    stats: list[dict[str, Any]] = [msgspec.json.decode(answer.data) for answer in answers]
    return [answer["endpoints"][0]["num_requests"] for answer in stats]


def user(name: str, session: str = "s1") -> Caller:
    return msgspec.structs.replace(CALLER, user=name, session_id=session)


async def report_turn(
    bus: Connection, caller: Caller, number: int, calls: tuple[ToolCallRecord, ...] = ()
) -> None:
    turn = Generation(
        query=f"Question {number}?",
        answer=f"Answer {number}.",
        tool_calls=list(calls),
        session_id=caller.session_id,
        query_id=f"{caller.session_id} q{number}",
    )
    envelope = seal(turn, type="response", source="test", user=caller.user)
    await publish_durably(bus, "memory.turn", encode(envelope))


async def loaded(bus: Connection, caller: Caller) -> list[str]:
    found = await call_tool(bus, "load_session", {"limit": 500}, caller=caller)
    return [message["content"] for message in found.data["messages"]]


async def test_stacks_share_the_requests_and_what_one_stores_every_one_finds(
    together: Together,
) -> None:
    caller = user("eve")
    texts = [f"Gold number {number} weighs {number} grams." for number in range(40)]
    saved = await asyncio.gather(*(save(together.client, text, caller=caller) for text in texts))
    assert all(result.ok for result in saved)

    found = await asyncio.gather(*(
        recall(together.client, text, caller=caller, top_k=5) for text in texts
    ))  # fmt: skip

    # One that is not in the index yet may stand below others that are.
    assert [text for text, one in zip(texts, found, strict=True) if text not in contents(one)] == []
    assert min(await requests_of(together.client, "save_memory")) > 0
    await in_step(together.client)
    assert len((await status(together.client)).stacks) == len(together.stacks)


async def test_a_recall_on_one_stack_sees_every_save_and_forget_of_another(
    together: Together,
) -> None:
    one, two = (stack.memories.of(user("ann")) for stack in together.stacks)

    for number in range(LOOPS):
        text = f"Lead number {number} is heavy."
        here, there = (one, two) if number % 2 else (two, one)
        request = RecallRequest(query=text, top_k=1)
        id_ = await here.write_episodic(text)
        items = (await there.recall(request)).items
        assert [item.record.id for item in items] == [id_]
        await here.erasure.erase(here.erasure.selection(id=id_))
        items = (await there.recall(request)).items
        assert id_ not in [item.record.id for item in items]


async def test_every_turn_is_stored_once_and_in_its_place(together: Together) -> None:
    callers = [user("joe", f"session {number}") for number in range(4)]

    for number in range(10):
        await asyncio.gather(*(report_turn(together.client, one, number) for one in callers))
    assert await turns_stored(together.stacks[0].bus, "default") == 0

    exchanges = [text for n in range(10) for text in (f"Question {n}?", f"Answer {n}.")]
    for caller in callers:
        assert await loaded(together.client, caller) == exchanges
    assert min(await requests_of(together.client, "memory_agent")) > 0


async def test_no_stack_remembers_what_another_has_answered(together: Together) -> None:
    caller = user("kim")
    await save(together.client, "The chemical symbol of silver is Ag.", caller=caller)
    call = {"query": "silver"}

    for number in range(6):
        answer = await call_tool(together.client, "search_memory", call, caller=caller)
        record = ToolCallRecord(name="search_memory", args=call, content=answer.content)
        await report_turn(together.client, caller, number, (record,))
    assert await turns_stored(together.stacks[0].bus, "default") == 0

    exchanges = [text for n in range(6) for text in (f"Question {n}?", f"Answer {n}.")]
    assert await loaded(together.client, caller) == exchanges


async def test_a_client_can_ask_what_was_shown(together: Together) -> None:
    asked = FindShowings(session_id="s1")

    assert (await ask_service(together.client, SHOWN, asked, user("una"))).showings == []


async def test_a_backup_is_left_to_postgresql(together: Together, tmp_path: Path) -> None:
    request = encode(seal(BackupRequest(folder=str(tmp_path)), type="request", source="test"))

    answer = await together.client.request("memory.backup", request)

    assert "pg_dump" in answer.data.decode()


async def test_doctor_says_that_the_stack_of_its_folder_does_not_run_though_others_answer(
    together: Together, tmp_path: Path
) -> None:
    async def about_here(folder: Path, ledger: str) -> dict[str, CheckResult]:
        settings = settings_in(folder, bus_url=together.url, ledger=ledger)
        found = [finding async for finding in check_stack(settings, deep=False)]
        assert found[0].detail == f"running at {together.url}"
        return {one.name: one for one in found if one.verdict == "broken"}

    runs = await about_here(together.folder / "one", together.ledger)
    ended = await about_here(tmp_path, together.ledger)
    refused = await about_here(tmp_path, together.ledger.replace("local2:", "nobody:"))

    assert runs == {}
    assert ended.keys() == {"stack here"}
    assert refused.keys() == {"stack here", "ledger"}
    assert "nobody" in refused["ledger"].detail


async def test_a_health_check_fails_where_only_other_stacks_serve(
    together: Together, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("LOCAL2_BUS__URL", together.url)
    monkeypatch.setenv("LOCAL2_MEMORY__LEDGER", together.ledger)

    runs = await asyncio.to_thread(local2, together.folder / "one", "doctor", "--ready")
    ended = await asyncio.to_thread(local2, tmp_path, "doctor", "--ready")

    assert (runs.returncode, ended.returncode) == (0, 1)
    assert "No stack is running" in ended.stderr


async def test_doctor_and_a_health_check_say_that_the_stack_of_their_folder_hangs(
    together: Together, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A process that lives, and has not said so in the ledger."""
    settings = settings_in(tmp_path, bus_url=together.url, ledger=together.ledger)
    settings.memory.data_dir.mkdir(exist_ok=True)
    hanging = Runtime(url=together.url, pid=os.getppid())
    settings.memory.data_dir.joinpath(RUNTIME_FILE).write_bytes(msgspec.json.encode(hanging))
    monkeypatch.setenv("LOCAL2_BUS__URL", together.url)
    monkeypatch.setenv("LOCAL2_MEMORY__LEDGER", together.ledger)
    monkeypatch.setenv("LOCAL2_MEMORY__DATA_DIR", str(settings.memory.data_dir))

    found = {one.name: one async for one in check_stack(settings, deep=False)}
    ready = await asyncio.to_thread(local2, tmp_path, "doctor", "--ready")

    assert found["stack here"].verdict == "broken"
    assert f"hangs ({stack_name(hanging.pid)})" in found["stack here"].detail
    assert ready.returncode == 1
    assert "hangs" in ready.stderr


async def test_doctor_says_how_much_the_database_takes(together: Together) -> None:
    asked = await ask_service(together.client, FINDINGS, Empty())

    details = {finding.name: finding.detail for finding in asked.findings}
    assert re.match(r"the database takes \d+\.\d MB; .* are free", details["disk"])


async def test_a_stack_with_another_ledger_is_refused(
    together: Together, tmp_path: Path, postgres_databases: PostgresServer
) -> None:
    with postgres_databases.new_database() as another:
        for ledger in (None, another):
            with pytest.raises(LeaseHeldError):
                async with open_stack(settings_in(tmp_path, bus_url=together.url, ledger=ledger)):
                    pass
    assert not list(tmp_path.rglob("ledger.sqlite3"))


async def test_a_stack_may_come_and_go_while_others_serve(
    together: Together, tmp_path: Path
) -> None:
    caller = user("lea")
    saved = 0

    async def keep_saving() -> None:
        nonlocal saved
        while True:
            result = await save(together.client, f"Tin number {saved}.", caller=caller)
            assert result.ok, result.content
            saved += 1

    async with asyncio.TaskGroup() as group:
        saving = group.create_task(keep_saving())
        async with stack_with_worker_here(
            settings_in(tmp_path, bus_url=together.url, ledger=together.ledger),
            with_generator=False,
        ) as third:
            before = saved
            await eventually(lambda: saved > before + 5)
            seen = await third.memories.of(caller).recall(RecallRequest(query="tin", top_k=20))
            assert seen.items
        after = saved
        await eventually(lambda: saved > after + 5)
        saving.cancel()

    last = f"Tin number {saved - 1}."
    assert contents(await recall(together.client, last, caller=caller, top_k=1)) == [last]
