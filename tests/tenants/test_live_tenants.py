"""Tenants share a stack and nothing else: no memories, tools, events or queries."""

import asyncio
import json
from pathlib import Path
from typing import Any

import nats.errors
import pytest
from nats.aio.msg import Msg

from commands import in_a_fork, local2
from local2.bus.dead_letters import count_letters
from local2.bus.server import RELOAD_SUCCEEDED, EmbeddedServer
from local2.errors import BusError
from local2.stack.app import Stack
from local2.tenants.directory import Directory
from tenant_agents import Agent, Answer, agent, settled, token_for
from waiting import eventually

pytestmark = pytest.mark.asyncio(loop_scope="module")


async def test_a_stock_client_remembers_and_recalls(acme: Agent, ada: str) -> None:
    saved = await acme.call("save_topic", {"topic": "user.city", "content": "Oslo"}, token=ada)
    assert saved.ok
    found = await acme.call("recall_topic", {"topic": "user.city"}, token=ada)
    assert (found.ok, "Oslo" in found.content) == (True, True)


async def test_memories_are_found_by_meaning_in_each_tenant(
    acme: Agent, beta: Agent, folder: Path, ada: str
) -> None:
    fact = {"content": "Everybody is given a fortnight of paid holidays."}
    await acme.call("save_memory", fact, token=ada)
    args = {"query": "How much vacation do employees get?"}

    async def found() -> bool:
        answer = await acme.call("search_memory", args, token=ada)
        return "fortnight" in answer.content and not answer.data["degraded"]

    await eventually(found)
    in_beta = await beta.call("search_memory", args, token=token_for(folder, "beta", "ada"))
    assert "fortnight" not in in_beta.content


async def test_a_turn_is_remembered_for_the_person_of_its_token(
    acme: Agent, ada: str, bob: str
) -> None:
    turn = {
        "payload": {"query": "Where is the spare key?", "answer": "Under the blue pot."},
        "user": "bob",
        "session_id": "s1",
        "query_id": "q1",
    }
    await acme.client.jetstream().publish(
        "response.generation",
        json.dumps(turn).encode(),
        headers={"Authorization": f"Bearer {ada}", "Nats-Msg-Id": "q1"},
    )

    async def found(token: str) -> bool:
        args = {"query": "Where is the spare key?"}
        return "blue pot" in (await acme.call("recall", args, token=token)).content

    await eventually(lambda: found(ada))
    assert not await found(bob)


async def test_queries_are_answered_within_the_tenant(acme: Agent, beta: Agent, ada: str) -> None:
    received = await acme.receive_from("response.generation")
    in_beta = await beta.receive_from("response.>")
    query = {"payload": {"query": "Remember that my boat is called Lark."}, "session_id": "boat"}
    accepted = await acme.client.request(
        "query.received",
        json.dumps(query).encode(),
        timeout=10,
        headers={"Authorization": f"Bearer {ada}"},
    )
    assert Answer.of(accepted).ok
    await eventually(lambda: received)
    assert all(ada not in str(message.headers) for message in received)

    async def remembered() -> bool:
        args = {"query": "What is the boat called?"}
        return "Lark" in (await acme.call("recall", args, token=ada)).content

    await eventually(remembered)
    assert in_beta == []


async def test_tools_of_one_tenant_are_invisible_to_another(acme: Agent, beta: Agent) -> None:
    async def sunny(message: Msg) -> None:
        result = b'{"payload": {"ok": true, "content": "sunny"}}'
        await acme.client.publish(message.reply, result)

    announced = await beta.receive_from("tool.schema")
    await acme.client.subscribe("tool.request.weather", cb=sunny)
    await acme.client.publish("tool.schema", b'{"name": "weather", "description": "The weather."}')
    await acme.client.flush()
    assert (await acme.call("weather", {})).content == "sunny"
    with pytest.raises(nats.errors.NoRespondersError):
        await beta.call("weather", {})
    assert announced == []


async def test_changes_are_announced_to_their_tenant_only(
    acme: Agent, beta: Agent, ada: str
) -> None:
    mine, theirs = await acme.receive_from("memory.>"), await beta.receive_from("memory.>")
    results = await beta.receive_from("tool.result.>")
    await acme.call(
        "remember_fact", {"content": "The pump is serviced in May.", "scope": "user"}, token=ada
    )
    await eventually(lambda: [one for one in mine if one.subject == "memory.saved"])
    await beta.call("recall_topic", {"topic": "user.city"})
    await settled()
    assert theirs == []
    assert results == []


async def test_late_joiners_request_schemas_and_get_one_announcement_per_tool(
    acme: Agent, beta: Agent
) -> None:
    mine, theirs = await acme.receive_from("tool.schema"), await beta.receive_from("tool.schema")
    await acme.client.publish("tool.schema.request", b"")

    def names() -> list[str]:
        return [json.loads(one.data)["payload"]["name"] for one in mine]

    await eventually(lambda: "recall" in names() and "undo" in names())
    await settled()
    assert len(names()) == len(set(names()))
    assert theirs == []


async def test_a_tenant_is_added_while_the_stack_runs(
    stack: Stack, folder: Path, acme: Agent, ada: str
) -> None:
    added = await asyncio.to_thread(in_a_fork, folder, "tenants", "add", "gamma")
    assert added.returncode == 0, added.stderr
    async with agent(folder, stack.url, "gamma") as newcomer:
        token = token_for(folder, "gamma", "ada")
        fact = {"content": "The gate code is 9.", "scope": "user"}
        assert (await newcomer.call("remember_fact", fact, token=token)).ok
        args = {"query": "gate code"}
        assert "code is 9" in (await newcomer.call("recall", args, token=token)).content
        assert "code is 9" not in (await acme.call("recall", args, token=ada)).content


async def test_a_tenant_is_removed_though_the_server_first_keeps_its_account(
    stack: Stack, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    reload, failed = EmbeddedServer.reload, list[str]()

    async def fail_once(server: EmbeddedServer) -> None:
        if not failed:
            failed.append("full")
            raise BusError("The disk is full.")
        await reload(server)

    def tenants() -> set[str]:
        return {memory.tenant for memory in stack.memories}

    assert (await asyncio.to_thread(in_a_fork, folder, "tenants", "add", "delta")).returncode == 0
    await eventually(lambda: "delta" in tenants())
    async with agent(folder, stack.url, "delta") as removed:
        monkeypatch.setattr(EmbeddedServer, "reload", fail_once)
        done = await asyncio.to_thread(in_a_fork, folder, "tenants", "remove", "delta")
        assert done.returncode == 0, done.stderr
        await eventually(lambda: "delta" not in tenants())
        assert failed
        await eventually(lambda: not removed.client.is_connected)


async def test_a_tenant_that_was_removed_is_not_reported_as_if_it_still_had_access(
    stack: Stack, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert (await asyncio.to_thread(in_a_fork, folder, "tenants", "add", "zeta")).returncode == 0
    token = token_for(folder, "zeta", "boss", "--role", "admin")
    headers = {"Authorization": f"Bearer {token}"}
    async with agent(folder, stack.url, "zeta", "local2") as removed:

        async def report() -> dict[str, Any]:
            asked = b'{"payload": {}}'
            said = await removed.client.request("memory.tenant", asked, 15, headers=headers)
            payload: dict[str, Any] = json.loads(said.data)["payload"]
            return payload

        assert {one["name"] for one in (await report())["agents"]} >= {"agent", "local2"}
        with monkeypatch.context() as patch:  # the stack has not noticed yet
            patch.setattr(Directory, "reload_if_changed", lambda _: False)
            done = await asyncio.to_thread(in_a_fork, folder, "tenants", "remove", "zeta")
            assert done.returncode == 0, done.stderr
            refused = await report()
        assert refused == {"code": "forbidden", "message": "The tenant zeta was removed."}
        await eventually(lambda: not removed.client.is_connected)


@pytest.mark.usefixtures("stack")
async def test_a_new_key_for_tokens_interrupts_nobody(folder: Path, beta: Agent) -> None:
    """While the server reads its accounts again, requests have no responders."""

    def reloads() -> int:
        (log,) = folder.rglob("server.log")
        return log.read_bytes().count(RELOAD_SUCCEEDED)

    await eventually(lambda: reloads() % 2 == 0)  # the second one of the last change
    before = reloads()
    rotated = await asyncio.to_thread(in_a_fork, folder, "tenants", "rotate", "beta")
    assert rotated.returncode == 0, rotated.stderr
    token = token_for(folder, "beta", "ada")

    async def is_accepted() -> bool:
        return (await beta.call("recall", {"query": "city"}, token=token)).ok

    await eventually(is_accepted)
    assert reloads() == before


async def test_a_shared_tool_is_announced_to_the_other_tenant_and_answers(
    folder: Path, acme: Agent, beta: Agent
) -> None:
    results = await beta.receive_from("tool.result.tides")
    announced = await beta.receive_from("tool.schema")

    async def high_tide(message: Msg) -> None:
        await acme.client.publish(message.reply, b'{"payload": {"ok": true, "content": "high"}}')
        await acme.client.publish("tool.result.tides", b'{"payload": {"content": "for acme"}}')

    await acme.client.subscribe("tool.request.tides", cb=high_tide)
    shared = local2(folder, "tenants", "share", "acme", "tides", "beta")
    assert shared.returncode == 0, shared.stderr

    async def answers() -> bool:
        try:
            return (await beta.call("tides", {})).content == "high"
        except nats.errors.NoRespondersError:
            return False

    await eventually(answers)
    await acme.client.publish("tool.schema", b'{"name": "tides", "description": "The tides."}')
    await eventually(lambda: any(b"tides" in one.data for one in announced))
    await settled()
    assert results == []

    local2(folder, "tenants", "share", "acme", "tides")

    await eventually(answers, lambda found: not found)


async def test_refused_messages_of_a_user_are_erased_with_the_user(
    acme: Agent, folder: Path, stack: Stack, ada: str, bob: str
) -> None:
    for token in (ada, bob):
        await acme.client.jetstream().publish(
            "response.generation", b"{no turn", headers={"Authorization": f"Bearer {token}"}
        )

    await eventually(lambda: count_letters(stack.bus, "acme"), lambda found: found == 2)
    async with agent(folder, stack.url, "acme", "local2") as operator:
        forgotten = await operator.call("forget", {"everything": True}, token=ada)
        assert forgotten.ok, forgotten.content
    assert await count_letters(stack.bus, "acme") == 1


@pytest.mark.parametrize(
    ("subject", "payload"),
    [
        ("tool.request.recall", {"args": {"query": "x"}}),
        ("memory.output.keep", {"key": "tout_" + "a" * 24, "offset": 0, "text": "x"}),
        ("memory.browse", {}),
        ("memory.browse.all", {}),
        ("memory.overview", {}),
        ("memory.overview.all", {}),
        ("memory.explain", {"recall": {"query": "x"}}),
        ("memory.shown", {"session_id": "s1"}),
        ("memory.graph", {}),
        ("memory.documents", {}),
        ("memory.documents.chunks", {"source": "x"}),
        ("memory.rights", {}),
        ("memory.export", {}),
        ("memory.import", {"number": 1, "lines": []}),
        ("memory.reindex", {}),
        ("memory.status", {}),
        ("memory.dead_letters", {"action": "next", "number": 1}),
        ("memory.items.get", {"collection": "c", "keys": [{"namespace": ["n"], "key": "k"}]}),
        ("query.received", {"query": "x"}),
        ("session.clear", {"session_id": "x"}),
    ],
)
async def test_a_refusal_is_also_in_the_headers_of_nats_services(
    acme: Agent, subject: str, payload: object
) -> None:
    request = json.dumps({"payload": payload}).encode()
    headers = {"Authorization": "Bearer forged"}
    answer = await acme.client.request(subject, request, timeout=15, headers=headers)

    reply_headers = answer.headers or {}
    assert reply_headers.get("Nats-Service-Error-Code") == "forbidden", answer.data
    assert "token" in reply_headers.get("Nats-Service-Error", "")


async def test_who_may_not_make_a_request_does_not_learn_what_is_wrong_with_its_payload(
    acme: Agent,
) -> None:
    request = json.dumps({"payload": {"embedder": 5}}).encode()

    answer = await acme.client.request("memory.reindex", request, timeout=15)

    assert (answer.headers or {}).get("Nats-Service-Error-Code") == "forbidden", answer.data
