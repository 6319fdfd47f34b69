"""A full disk is noticed and reported, loses no turn, and the stack recovers by itself.

A limit on file sizes stands in for the full disk, where it is not a start that meets it.
"""

import asyncio
import sys
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from calling import RICHARD
from harm import fill, full_disk, small_disk
from local2 import examination
from local2.bus import server as servers
from local2.bus.connection import Connection, connect
from local2.bus.server import embedded_server
from local2.bus.streams import publish_durably
from local2.client.queries import QueryClient
from local2.client.tools import call_tool
from local2.errors import BusError, UnwritableError
from local2.protocol.maintenance import CheckResult
from local2.protocol.payloads import Generation
from stack_process import StackProcess, stack_process
from stacks import settings_in, status
from waiting import eventually

if sys.platform != "linux":
    pytest.skip("Limits of another process are Linux's.", allow_module_level=True)

PATIENCE = 30.0
"""Seconds: a start on a full disk would take an hour."""
SMALL = 4 * 1024 * 1024
LEDGER_LIMIT = 512 * 1024
"""Bytes: enough for a small ledger and the logs, which continue beside a broken stream."""


async def ask(bus: Connection, *questions: str) -> list[Generation]:
    async with QueryClient(bus) as client:
        return [await client.ask(question, caller=RICHARD, timeout=30) for question in questions]


async def stored_answers(bus: Connection) -> list[str]:
    loaded = await call_tool(bus, "load_session", {}, caller=RICHARD)
    return [m["content"] for m in loaded.data["messages"] if m["role"] == "assistant"]


async def check_turns(folder: Path) -> CheckResult:
    findings = {
        finding.name: finding for finding in await examination.run_checks(settings_in(folder))
    }
    return findings["turns"]


async def turns_problem(bus: Connection) -> str:
    return (await status(bus)).turns_problem or ""


async def test_turns_wait_for_space_and_the_server_broken_by_a_full_disk_is_restarted(
    tmp_path: Path,
) -> None:
    async with stack_process(tmp_path) as stack, connect(stack.url, name="test") as bus:
        (before,) = await ask(bus, "Remember that my metal is osmium.")
        server = stack.server_pid
        with full_disk((server, 0), (stack.pid, LEDGER_LIMIT)):
            unstored = await ask(bus, "What is my metal?", "Remember that my gas is radon.")
            await eventually(lambda: _reports(bus, "Make room"))
            broken = await check_turns(tmp_path)
            assert stack.server_pid == server, "without space it would not start"

        answers = [turn.answer for turn in (before, *unstored)]
        await eventually(lambda: _has_answers(bus, answers), within=30)
        await eventually(lambda: _reports(bus, ""))
        assert _is_restarted(stack, server)
        assert (await ask(bus, "What is my gas?"))[0].error is None
        mended = await check_turns(tmp_path)

    assert before.error is None
    assert [bool(turn.answer) for turn in unstored] == [True, True]
    assert all("not stored yet" in str(turn.error) for turn in unstored)
    assert (broken.verdict, mended.verdict) == ("broken", "ok")
    assert "File too large" in broken.detail


async def test_a_server_broken_unnoticed_is_restarted_for_other_agents(
    tmp_path: Path,
) -> None:
    async with (
        stack_process(tmp_path, worker_here=True) as stack,
        connect(stack.url, name="test") as bus,
    ):
        server = stack.server_pid
        with full_disk((server, 0)), pytest.raises(BusError):
            await publish_durably(bus, "response.generation", encoded_turn("lost"), timeout=0.5)

        await eventually(lambda: _is_restarted(stack, server), within=30)
        await eventually(lambda: _is_accepted(bus, "q2"), within=30)
        await eventually(lambda: _has_answers(bus, ["Iridium."]))


async def test_a_start_on_a_full_disk_says_so_though_the_server_would_wait_for_room(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(servers, "START_PATIENCE", 3600.0)
    with ExitStack() as resources:
        try:
            resources.enter_context(small_disk(tmp_path, SMALL))
        except PermissionError:
            pytest.skip("Only root may mount a small disk.")
        starting = partial(embedded_server, tmp_path / "nats", host="127.0.0.1", port=-1)
        async with starting():
            pass
        filling = fill(tmp_path)

        with pytest.raises(UnwritableError, match=r"No space left on device\. Make room"):
            async with asyncio.timeout(PATIENCE), starting():
                pass

        filling.unlink()
        async with starting():
            pass


def encoded_turn(query_id: str) -> bytes:
    turn = b'"session_id": "s1", "query": "Which metal?", "answer": "Iridium."'
    return b'{"user": "richard", "payload": {"query_id": "%s", %s}}' % (query_id.encode(), turn)


def _is_restarted(stack: StackProcess, former: int) -> bool:
    try:
        return stack.server_pid != former
    except ValueError:  # while it is being started
        return False


async def _is_accepted(bus: Connection, query_id: str) -> bool:
    try:
        await publish_durably(
            bus, "response.generation", encoded_turn(query_id), message_id=query_id
        )
    except BusError:
        return False
    return True


async def _has_answers(bus: Connection, answers: list[str]) -> bool:
    try:
        return await stored_answers(bus) == answers
    except (BusError, TypeError):  # while the server is restarted
        return False


async def _reports(bus: Connection, why: str) -> Any:
    try:
        now = await turns_problem(bus)
    except BusError:
        return False
    return why in now if why else not now
