"""`with local2.connect` gives programs without an event loop the same memory."""

import inspect
import os
import signal
import sys
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, assert_type

import msgspec
import pytest

import local2
from commands import Served, served
from forking import Fork, exit_code
from http_servers import team_tool
from local2.client.calls import Topic
from local2.client.items import Items
from local2.client.memory import Memory, SyncItems, SyncMemory, SyncTopic
from local2.protocol.items import ItemKey, ItemPut
from stacks import settings_in
from waiting import eventually

NOWHERE = "nats://127.0.0.1:1"


@pytest.fixture(scope="module")
def stack(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    with served(settings_in(tmp_path_factory.mktemp("home"))) as running:
        yield running


def portal_threads() -> list[threading.Thread]:
    return [thread for thread in threading.enumerate() if thread.name == "local2 memory"]


def test_a_program_without_a_loop_stores_and_finds_memories(stack: Served) -> None:
    with local2.connect(url=stack.url, user="ada") as memory:
        assert_type(memory, local2.SyncMemory)
        saved = memory.topics["user.city"].set("Oslo")
        fact = memory.remember("Ada measures in metric units.", importance=0.9)
        found = memory.recall("Which units does Ada use?", top_k=1)

        assert_type(found, local2.RecalledItems)
        assert [item.id for item in found.items] == [fact.id]
        assert memory.topics["user.city"].get() == "Oslo"
        assert [version.id for version in memory.topics["user.city"].history()] == [saved.id]
        assert memory.call("recall_topic", topic="user.city").data["content"] == "Oslo"
        assert memory.of(user="bob").topics["user.city"].get() is None


def test_items_are_stored_and_listed_one_page_after_another(stack: Served) -> None:
    keys = [ItemKey(namespace=("cat",), key=f"{number}") for number in range(5)]
    with local2.connect(url=stack.url, user="ada") as memory:
        items = memory.items("pets").in_session("s1")
        value = msgspec.Raw(b'{"legs":4}')
        items.put([ItemPut(namespace=key.namespace, key=key.key, value=value) for key in keys])

        listed = [item.key for item in items.each_in(("cat",), page_size=2)]
        assert listed == ["4", "3", "2", "1", "0"]
        memory.forget(session="s1")
        assert items.get(keys) == [None] * 5


def test_threads_share_a_memory_and_errors_are_those_of_the_memory(stack: Served) -> None:
    with local2.connect(url=stack.url, user="ada") as memory:
        with ThreadPoolExecutor(8) as threads:
            saved = list(threads.map(lambda number: memory.save(f"Note {number}."), range(40)))
        with pytest.raises(local2.InvalidArgumentsError, match="query"):
            memory.recall("")

    assert len({note.id for note in saved}) == 40
    with pytest.raises(local2.BusError, match="is closed"):
        memory.recall("Note")
    assert portal_threads() == []


def test_a_memory_that_was_not_opened_says_how_to_open_it() -> None:
    opening: Any = local2.connect(user="ada")

    with pytest.raises(AttributeError, match="'remember' exists once this is opened: `with"):
        opening.remember("Ada likes tea.")


def test_a_memory_that_cannot_be_opened_leaves_no_thread(tmp_path: Path) -> None:
    nobody = local2.connect(url=NOWHERE, credentials=tmp_path / "nobody.nk")
    with pytest.raises(local2.ConfigError), nobody:
        pass

    assert portal_threads() == []


def call_until_interrupted(url: str, report: Path) -> None:
    with local2.connect(url=url, user="ada", timeout=60) as memory:
        try:
            memory.call("jot", text="slow")
        except KeyboardInterrupt:
            report.write_text(memory.topics["user.city"].get() or "")
            raise


async def test_an_interruption_cancels_the_call_and_ends_the_program(
    stack: Served, tmp_path: Path
) -> None:
    report = tmp_path / "report"
    async with local2.connect(url=stack.url, user="ada") as memory:
        await memory.topics["user.city"].set("Oslo")
    async with team_tool(stack) as notes:
        notes.may_finish.clear()
        program = Fork(call_until_interrupted, stack.url, report)
        await eventually(lambda: notes.could_wait)
        program.send_signal(signal.SIGINT)
        await eventually(lambda: program.poll() is not None)
        notes.may_finish.set()
        async with local2.connect(url=stack.url, user="ada") as memory:
            await memory.call("jot", text="quick")

    assert program.returncode == 1
    assert report.read_text() == "Oslo"
    assert [text for _, text in notes.noted] == ["quick"]


def use_after_a_fork(url: str, report: Path) -> None:
    with local2.connect(url=url, user="ada") as memory:
        topic = memory.topics["user.city"]
        if os.fork() == 0:
            signal.alarm(20)
            for use in (topic.get, lambda: memory.of(user="bob"), lambda: memory.recall("a city")):
                with pytest.raises(local2.BusError) as refused:
                    use()
                with report.open("a") as file:
                    file.write(refused.value.message)
            os._exit(0)
        sys.exit(os.waitstatus_to_exitcode(os.wait()[1]))


async def test_a_fork_does_not_wait_for_the_memory_of_its_parent(
    stack: Served, tmp_path: Path
) -> None:
    assert await exit_code(use_after_a_fork, stack.url, tmp_path / "report") == 0
    assert (tmp_path / "report").read_text().count("from which this one was forked") == 3


@pytest.mark.parametrize(
    ("awaited", "blocking", "left_out"),
    [
        (Memory, SyncMemory, {"loop", "can_act_as"}),
        (Items, SyncItems, set()),
        (Topic, SyncTopic, set()),
    ],
)
def test_each_method_has_a_synchronous_one_with_its_arguments(
    awaited: type, blocking: type, left_out: set[str]
) -> None:
    def public(class_: type) -> dict[str, Any]:
        return {name: value for name, value in vars(class_).items() if not name.startswith("_")}

    expected, found = public(awaited), public(blocking)

    assert expected.keys() - left_out == found.keys()
    for name, method in found.items():
        if callable(method):
            assert inspect.signature(method) == inspect.signature(expected[name])
            assert not inspect.iscoroutinefunction(method)
