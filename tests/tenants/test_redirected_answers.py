"""An answer that a reader sends to a subject instead of an inbox is neither stored nor an event."""

import asyncio
import json
from pathlib import Path

import pytest

from commands import in_a_fork
from local2.protocol import subjects
from local2.protocol.memory_tools import TOOL_NAMES
from local2.protocol.services import REQUESTS
from local2.stack.app import Stack
from tenant_agents import Agent, agent
from waiting import eventually

pytestmark = pytest.mark.asyncio(loop_scope="module")

TEXT = "written by a reader"
LISTENED = (*subjects.STORED, *subjects.OBSERVED, *REQUESTS, *subjects.FANOUT_REQUESTS)
SENT_BY_NOBODY = (
    *subjects.EVENTS,
    *(subjects.tool_result(tool) for tool in TOOL_NAMES),
    *(subjects.tool_progress(tool) for tool in TOOL_NAMES),
)
REQUEST = json.dumps({"payload": {"args": {"topic": f"user.{TEXT}"}}}).encode()


async def _letters(admin: Agent) -> list[str]:
    found: list[str] = []
    number = 0
    while True:
        ask = {"payload": {"action": "next", "number": number + 1}}
        data = json.dumps(ask).encode()
        answer = await admin.client.request("memory.dead_letters", data, timeout=15)
        letter = json.loads(answer.data)["payload"].get("found")
        if letter is None:
            return found
        number = letter["sequence"]
        found.append(letter["letter"]["message"])


async def _redirect(reader: Agent, *where: str) -> None:
    """Ask for a topic, and have each answer sent to one of the subjects; return when it was."""
    for subject in where:
        literal = subject.replace("*", "any").replace(">", "recall")
        await reader.client.publish("tool.request.recall_topic", REQUEST, reply=literal)
    assert TEXT in (await reader.call("recall_topic", {"topic": f"user.{TEXT}"})).content


async def test_no_answer_is_stored_or_becomes_an_event(stack: Stack, folder: Path) -> None:
    words = ("tenants", "add", "acme", "--agent", "rita", "--role", "reader")
    done = await asyncio.to_thread(in_a_fork, folder, *words)
    assert done.returncode == 0, done.stderr
    async with (
        agent(folder, stack.url, "acme", "rita") as reader,
        agent(folder, stack.url, "acme", "local2") as admin,
    ):
        received = [await admin.receive_from(subject) for subject in SENT_BY_NOBODY]
        answered = await admin.receive_from(subjects.RESPONSE_DELTA)
        await _redirect(reader, *LISTENED, *SENT_BY_NOBODY, subjects.MEMORY_PROBE)
        marker = b'{"payload": "the only letter"}'
        await admin.client.publish(subjects.MEMORY_TURN, marker)
        await eventually(lambda: _letters(admin))

        assert await _letters(admin) == [marker.decode()]
        changes = received[SENT_BY_NOBODY.index(subjects.MEMORY_DEAD_LETTER)]
        await eventually(lambda: changes)
        assert [one for messages in received for one in messages if TEXT in str(one.data)] == []
        assert len(changes) == 1
        assert answered == []
