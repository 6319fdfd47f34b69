"""A disk that was full once: it is noticed and told, no turn is lost, and all goes on by itself.

A limit of file sizes stands for the full disk.
"""

import sys
from pathlib import Path
from typing import Any

import pytest

from calling import RICHARD
from harm import full_disk
from local import examination
from local.bus.connection import Connection, connect
from local.bus.streams import publish_durably
from local.client.queries import QueryClient
from local.client.tools import call_tool
from local.errors import BusError
from local.protocol.maintenance import CheckResult
from local.protocol.payloads import Generation
from stack_process import StackProcess, stack_process
from stacks import settings_in, status
from waiting import eventually

if sys.platform != "linux":
    pytest.skip("Limits of another process are Linux's.", allow_module_level=True)

OF_A_LEDGER = 512 * 1024
"""Bytes: a small ledger and the logs go on, as they do beside a stream that is broken."""


async def asked(bus: Connection, *questions: str) -> list[Generation]:
    async with QueryClient(bus) as client:
        return [await client.ask(question, caller=RICHARD, timeout=30) for question in questions]


async def said(bus: Connection) -> list[str]:
    loaded = await call_tool(bus, "load_session", {}, caller=RICHARD)
    return [m["content"] for m in loaded.data["messages"] if m["role"] == "assistant"]


async def found(folder: Path) -> CheckResult:
    findings = {
        finding.name: finding for finding in await examination.run_checks(settings_in(folder))
    }
    return findings["turns"]


async def problem(bus: Connection) -> str:
    return (await status(bus)).turns_problem or ""


async def test_turns_wait_for_space_and_the_server_that_a_full_disk_broke_is_restarted(
    tmp_path: Path,
) -> None:
    async with stack_process(tmp_path) as stack, connect(stack.url, name="test") as bus:
        (before,) = await asked(bus, "Remember that my metal is osmium.")
        server = stack.server_pid
        with full_disk((server, 0), (stack.pid, OF_A_LEDGER)):
            unstored = await asked(bus, "What is my metal?", "Remember that my gas is radon.")
            await eventually(lambda: _says(bus, "Make room"))
            broken = await found(tmp_path)
            assert stack.server_pid == server, "without space it would not start"

        answers = [turn.answer for turn in (before, *unstored)]
        await eventually(lambda: _said(bus, answers), within=30)
        await eventually(lambda: _says(bus, ""))
        assert _restarted(stack, server)
        assert (await asked(bus, "What is my gas?"))[0].error is None
        mended = await found(tmp_path)

    assert before.error is None
    assert [bool(turn.answer) for turn in unstored] == [True, True]
    assert all("not stored yet" in str(turn.error) for turn in unstored)
    assert (broken.verdict, mended.verdict) == ("broken", "ok")
    assert "File too large" in broken.detail


async def test_a_server_that_was_broken_while_nobody_looked_is_mended_for_agents_of_others(
    tmp_path: Path,
) -> None:
    async with stack_process(tmp_path) as stack, connect(stack.url, name="test") as bus:
        server = stack.server_pid
        with full_disk((server, 0)), pytest.raises(BusError):
            await publish_durably(bus, "response.generation", foreign("lost"), timeout=0.5)

        await eventually(lambda: _restarted(stack, server), within=30)
        await eventually(lambda: _takes(bus, "q2"), within=30)
        await eventually(lambda: _said(bus, ["Iridium."]))


def foreign(query_id: str) -> bytes:
    turn = b'"session_id": "s1", "query": "Which metal?", "answer": "Iridium."'
    return b'{"user": "richard", "payload": {"query_id": "%s", %s}}' % (query_id.encode(), turn)


def _restarted(stack: StackProcess, former: int) -> bool:
    try:
        return stack.server_pid != former
    except ValueError:  # while it is being started
        return False


async def _takes(bus: Connection, query_id: str) -> bool:
    try:
        await publish_durably(bus, "response.generation", foreign(query_id), message_id=query_id)
    except BusError:
        return False
    return True


async def _said(bus: Connection, answers: list[str]) -> bool:
    try:
        return await said(bus) == answers
    except (BusError, TypeError):  # while the server is restarted
        return False


async def _says(bus: Connection, why: str) -> Any:
    try:
        now = await problem(bus)
    except BusError:
        return False
    return why in now if why else not now
