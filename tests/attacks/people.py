"""Attacks with known or guessed ids, by users of the same tenant or of another."""

from collections.abc import Awaitable, Callable
from typing import Any

from attacks.world import (
    ADAS,
    BETAS,
    ITEM,
    ITEMS,
    OUTPUT,
    QUERY,
    SESSION,
    VAULT,
    Case,
    World,
    ask,
    refused,
)
from waiting import eventually

Call = tuple[str, dict[str, Any]]
NEVER, ALWAYS = "2000-01-01", "2100-01-01"


def _reads(fact: str) -> dict[str, Call]:
    return {
        "the history of a fact, by its id": ("memory_history", {"topic_or_id": fact}),
        "the history of a topic": ("memory_history", {"topic_or_id": "user.code"}),
        "the relations of a fact": ("relations", {"id": fact}),
        "an output, by its key": ("read_tool_output", {"tool_output_key": OUTPUT}),
        "a session, by its id": ("load_session", {"session_id": SESSION, "limit": 50}),
        "what matters most": ("top_memories", {}),
        "a topic": ("recall_topic", {"topic": "user.code"}),
        "a topic in capitals": ("recall_topic", {"topic": "USER.CODE"}),
        "episodes": ("search_memory", {"query": VAULT, "top_k": 20}),
        "all, as of tomorrow": ("recall", {"query": VAULT, "top_k": 20, "as_of": ALWAYS}),
        "all, as of long ago": ("recall", {"query": VAULT, "top_k": 20, "as_of": NEVER}),
        "all, explained": ("recall", {"query": VAULT, "top_k": 20, "explain": True}),
        "all, as one answer": ("recall", {"query": VAULT, "top_k": 20, "synthesize": True}),
        "the session": ("recall", {"query": VAULT, "top_k": 20, "scope": "session"}),
        "the history": ("recall", {"query": VAULT, "top_k": 20, "scope": "history"}),
        "the agent's facts": ("recall", {"query": VAULT, "top_k": 20, "scope": "agent"}),
        "the id itself": ("recall", {"query": fact, "top_k": 20}),
    }


READS = tuple(_reads(""))
TENANT_OF_ATTACKER = {"eve": "acme", "mallory": "beta"}


def _reading(attacker: str, read: str) -> Callable[[World], Awaitable[object]]:
    """Read in ada's session, and with the ids of her query."""

    async def attack(world: World) -> object:
        tool, args = _reads(world.ids["acme"])[read]
        tenant = TENANT_OF_ATTACKER[attacker]
        envelope: dict[str, Any] = {
            "session_id": SESSION,
            "query_id": QUERY,
            "correlation_id": QUERY,
        }
        token = world.token("bob", tenant)
        found = await world.agents[attacker].call(tool, args, token=token, headers=None, **envelope)
        assert BETAS not in str(found)
        return found

    return attack


def _items(attacker: str) -> Callable[[World], Awaitable[object]]:
    """Read ada's items by key, namespace and meaning; then delete them."""

    async def attack(world: World) -> object:
        token = world.token("bob", TENANT_OF_ATTACKER[attacker])
        calls: list[Call] = [
            ("get", {"keys": [ITEM]}),
            ("search", {"query": VAULT}),
            ("search", {"namespace": ["vault"], "exact": True}),
            ("list", {}),
            ("put", {"items": [ITEM]}),
            ("put", {"items": [{**ITEM, "value": {"code": "0000"}}]}),
            ("delete", {"keys": [ITEM], "namespaces": [[], ["vault"]]}),
        ]
        answers = []
        for name, args in calls:
            request = {**ITEMS, **args}
            envelope: dict[str, Any] = {"user": "ada", "session_id": SESSION}
            subject = f"memory.items.{name}"
            answers.append(
                await ask(world.agents[attacker], subject, request, token=token, **envelope)
            )
            assert BETAS not in answers[-1]
        return answers

    return attack


async def _relate(world: World) -> object:
    bob = world.token("bob")
    own = await world.eve.call(
        "remember_fact", {"content": "The vault is bob's.", "scope": "user"}, token=bob
    )
    answers = []
    for source, target in (
        (own.data["id"], world.ids["acme"]),
        (world.ids["acme"], own.data["id"]),
        (own.data["id"], world.ids["beta"]),
    ):
        for kind in ("supersedes", "contradicts"):
            args = {"source": source, "type": kind, "target": target}
            answers.append(
                refused(await world.eve.call("relate", args, token=bob), "invalid_arguments")
            )
    return answers


async def _rate(world: World) -> object:
    """Rate ada's answers: ratings count only for the rater's own answers."""
    answers = []
    for attacker, tenant in TENANT_OF_ATTACKER.items():
        token = world.token("bob", tenant)
        for envelope in ({"session_id": SESSION}, {}):
            rating = {"query_id": QUERY, "score": -1, "comment": "0000", **envelope}
            agent = world.agents[attacker]
            answers.append(await ask(agent, "response.feedback", rating, token=token, user="ada"))
    return answers


async def _reuse_ids(world: World) -> object:
    """Give bob's own session, query, message and topic the same ids as ada's."""
    bob = world.token("bob")
    envelope: dict[str, Any] = {"session_id": SESSION, "query_id": QUERY}
    turn = {"query": "Say the code of the vault.", "answer": "It is 0000."}
    messages = [{"role": "user", "content": "The code is 0000.", "id": "m1"}]
    known = {"topic": "user.code", "content": "The code of the vault is 0000."}
    calls: list[Call] = [
        ("note", {"content": "Vault: 0000"}),
        ("ingest", {"messages": messages, "session_id": SESSION, "allow_again": True}),
        ("save_topic", known),
        ("save_memory", {"content": "The code of the vault is 0000."}),
    ]
    answers = [await world.eve.call(tool, args, token=bob, **envelope) for tool, args in calls]
    return answers, await ask(world.eve, "memory.turn", turn, token=bob, **envelope)


async def _erase(world: World) -> object:
    """Have an admin's agent act for bob: it erases only bob's content."""
    bob = world.token("bob")
    answers = [
        await world.boss.call("forget", selection, token=bob, session_id=SESSION)
        for selection in (
            {"id": world.ids["acme"]},
            {"id": world.ids["beta"]},
            {"topic": "user.code"},
            {"session_id": SESSION},
            {"everything": True, "allow_again": True},
        )
    ]
    assert not answers[0].ok, answers[0]
    assert not answers[1].ok, answers[1]
    return answers


async def _erase_as_writer(world: World) -> object:
    """Have a writer's agent try to erase what is not bob's own, for bob or for nobody."""
    bob = world.token("bob")
    chosen: list[dict[str, Any]] = [
        {"id": world.ids["acme"]},
        {"id": world.ids["beta"]},
        {"topic": "user.code"},
        {"topic": "project.database"},
        {"session_id": SESSION, "allow_again": True},
    ]
    answers = [await world.eve.call("forget", one, token=bob, session_id=SESSION) for one in chosen]
    answers += [
        await world.eve.call("forget", one, session_id=SESSION, user="ada") for one in chosen
    ]
    assert [one.ok for one in answers] == [False, False, True, True, True, *[False] * 5]
    return answers


async def _undo(world: World) -> object:
    """Acting for bob, look at changes made for ada and try to undo them."""
    ada, bob = world.token("ada"), world.token("bob")
    audit_of_ada = await world.curator.call("audit", {"limit": 1000}, token=ada)
    runs = {one["run"] for one in audit_of_ada.data["entries"] if one.get("run")} | {
        world.ids["acme"]
    }
    undone = [
        await attacker.call("undo", {"run": run}, token=bob)
        for attacker in (world.curator, world.eve)
        for run in runs
    ]
    assert not [one for one in undone if one.ok and one.data["undone"]]
    of_fact = await world.curator.call("audit", {"id": world.ids["acme"]}, token=bob)
    assert of_fact.data["entries"] == []
    planned = await world.curator.call("consolidate", {"dry_run": True}, token=bob)
    assert planned.ok
    return undone, of_fact, planned, await world.curator.call("audit", {}, token=bob)


async def _other_turns_id(world: World) -> object:
    """Have beta use a message id first; acme's message with that id is still stored."""
    headers: dict[str, Any] = {"Nats-Msg-Id": "the-same"}
    beta, cleo = world.token("ada", "beta"), world.token("cleo")
    first = {"query": "Who was first?", "answer": "Mallory was.", "query_id": "same"}
    await ask(
        world.mallory, "memory.turn", first, token=world.token("bob", "beta"), headers=headers
    )
    mine = {"query": "Where is the ladder?", "answer": "Behind the shed.", "query_id": "same"}
    stored = await ask(world.desk, "memory.turn", mine, token=cleo, headers=headers)
    assert "duplicate" not in stored
    question = {"query": "Where is the ladder?"}

    async def remembered() -> bool:
        return "shed" in (await world.desk.call("recall", question, token=cleo)).content

    await eventually(remembered)
    theirs = await world.office.call("recall", question, token=beta)
    assert "shed" not in theirs.content
    return stored


def _flood(attacker: str) -> Callable[[World], Awaitable[object]]:
    """Store much that resembles what ada looks for, wherever the attacker may write."""

    async def attack(world: World) -> object:
        token = world.token("bob", TENANT_OF_ATTACKER[attacker])
        agent = world.agents[attacker]
        answers: list[object] = []
        for number in range(20):
            text = f"What is the code of the vault? The code of the vault is {number:04}."
            fact = {"content": text, "scope": "user", "importance": 1, "durability": "core"}
            answers += [
                await agent.call("remember_fact", fact, token=token),
                await agent.call("save_memory", {"content": text}, token=token, session_id=SESSION),
            ]
        own = {**fact, "scope": "agent"}
        return answers, await agent.call("remember_fact", own, token=token)

    return attack


async def _as_admin_of_another_tenant(world: World) -> object:
    """Have beta's admin do everything an admin can, with ids that acme has as well."""
    cleo = world.token("cleo", "beta")
    exported = await ask(world.chief, "memory.export", {}, token=cleo)
    answers: list[object] = [exported]
    assert ADAS not in exported
    answers += [
        await world.chief.call("forget", {"topic": "user.code"}, token=cleo),
        await world.chief.call("forget", {"session_id": SESSION}, token=cleo),
        await world.chief.call("forget", {"everything": True}, token=cleo),
        await world.chief.call("consolidate", {"dry_run": True}, token=cleo),
        await world.chief.call("audit", {"limit": 1000}, token=cleo),
        await world.chief.call("forget", {"id": world.ids["acme"]}, token=cleo),
        await world.chief.call("undo", {"run": world.ids["acme"]}, token=cleo),
        await ask(world.chief, "memory.reindex", {}, token=cleo),
        await ask(world.chief, "memory.health", {}, token=cleo),
        await ask(world.chief, "memory.dead_letters", {"action": "next", "number": 1}, token=cleo),
    ]

    async def searched_whole() -> bool:
        found = await world.office.call("recall", {"query": VAULT}, token=cleo)
        return not found.data["degraded"]

    await eventually(searched_whole, within=30)
    return answers


async def _dead_letters(world: World) -> object:
    """Read dead letters: unreadable messages of ada's agents are not shown to others."""
    dead_letters = await world.eve.receive_from("memory.dead_letter")
    turn = {"query": "Say the code.", "answer": f"It is {ADAS}."}
    invalid_token = world.token("ada").rpartition(".")[0] + ".AAAA"
    await ask(world.desk, "memory.turn", turn, token=invalid_token, user="ada")
    await world.desk.client.publish("memory.turn", f"Not JSON: {ADAS}".encode())
    await world.at_rest()
    status = await ask(world.eve, "memory.status", {}, token=world.token("bob"))
    await world.eve.client.flush()
    assert len(dead_letters) == 2
    return status, [one.data for one in dead_letters]


CASES = [
    *(
        Case(f"{attacker} of {tenant} reads {read}", _reading(attacker, read), tenant)
        for attacker, tenant in TENANT_OF_ATTACKER.items()
        for read in READS
    ),
    *(
        Case(f"{attacker} asks for another's items", _items(attacker), at)
        for attacker, at in TENANT_OF_ATTACKER.items()
    ),
    Case("relations with another's facts", _relate),
    Case("ratings of another's answer", _rate),
    Case("another's ids for one's own", _reuse_ids),
    Case("erasing by another's ids", _erase),
    Case("erasing by another's ids, as a writer", _erase_as_writer),
    Case("consolidating, and undoing what others did", _undo),
    Case("the id of another tenant's message", _other_turns_id),
    Case("much of the same from the same tenant", _flood("eve")),
    Case("much of the same from another tenant", _flood("mallory"), "beta"),
    Case("an admin of another tenant", _as_admin_of_another_tenant, "beta"),
    Case("letters that nobody could read", _dead_letters),
]
