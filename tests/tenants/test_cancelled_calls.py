"""With accounts, server and token decide whose call a message is about, not the message."""

import json
from typing import NamedTuple

import pytest

from local2.bus.running_calls import RunningCalls
from local2.protocol.envelope import Caller
from tenant_agents import Agent
from waiting import eventually

pytestmark = pytest.mark.asyncio(loop_scope="module")


class Cancelled(NamedTuple):
    caller: Caller
    request_id: str


async def _cancel(agent: Agent, request_id: str, token: str) -> None:
    claims = {"user": "ada", "source": "agent", "correlation_id": request_id, "payload": {}}
    headers = {"Authorization": f"Bearer {token}"}
    await agent.client.publish("tool.cancel.recall", json.dumps(claims).encode(), headers=headers)


async def test_a_cancellation_has_the_caller_of_its_connection_and_token(
    acme: Agent, beta: Agent, ada: str, bob: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    received: list[Cancelled] = []

    def cancel(_: RunningCalls, caller: Caller, request_id: str) -> None:
        received.append(Cancelled(caller, request_id))

    monkeypatch.setattr(RunningCalls, "cancel", cancel)
    await _cancel(acme, "one", ada)
    await _cancel(acme, "two", bob)
    await _cancel(beta, "three", ada)
    await _cancel(acme, "four", ada)
    await eventually(lambda: len(received) == 3)

    assert [(one.caller.tenant, one.caller.user, one.request_id) for one in received] == [
        ("acme", "ada", "one"),
        ("acme", "bob", "two"),
        ("acme", "ada", "four"),
    ]


@pytest.mark.parametrize("subject", ["tool.running.recall", "memory.running"])
async def test_an_agent_learns_that_nobody_has_its_call(
    acme: Agent, ada: str, subject: str
) -> None:
    question = json.dumps({"correlation_id": "one", "payload": {}}).encode()
    headers = {"Authorization": f"Bearer {ada}"}

    answer = await acme.client.request(subject, question, timeout=15, headers=headers)

    assert json.loads(answer.data)["payload"] == {"running": False}


async def test_what_is_said_of_a_call_is_not_delivered_to_other_agents(
    acme: Agent, beta: Agent, ada: str
) -> None:
    said = ("tool.cancel.>", "tool.running.>", "memory.running")
    received = [await each.receive_from(subject) for each in (acme, beta) for subject in said]
    await _cancel(acme, "one", ada)
    await acme.client.publish("tool.running.recall", b"")
    await acme.client.publish("memory.running", b"")
    assert (await acme.call("recall_topic", {"topic": "user.x"}, token=ada)).ok

    assert received == [[]] * 6
