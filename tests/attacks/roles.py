"""Attacks on the limits of roles, directly and indirectly."""

from collections.abc import Awaitable, Callable
from typing import Any

from attacks.world import ADAS, ITEM, ITEMS, OUTPUT, QUERY, SESSION, Case, World, ask, refused

WRITES: dict[str, dict[str, Any]] = {
    "save_topic": {"topic": "user.code", "content": "0000"},
    "remember_fact": {"content": "The code of the vault is 0000.", "scope": "user"},
    "add_knowledge": {
        "facts": [{"subject": "Vault", "predicate": "opens with", "object": "0000"}],
        "scope": "user",
    },
    "save_memory": {"content": "The code of the vault is 0000."},
    "note": {"content": "Vault: 0000"},
    "ingest": {"messages": [{"role": "user", "content": "The code of the vault is 0000."}]},
    "relate": {"source": "a", "type": "supersedes", "target": "b"},
    "undo": {"run": "any"},
    "forget": {"session_id": SESSION},
}
"""Tools that a reader may not call."""
FOR_EVERYBODY: dict[str, dict[str, Any]] = {
    "save_topic": {"topic": "project.database", "content": "MongoDB"},
    "remember_fact": {"content": "acme uses MongoDB now.", "scope": "tenant"},
    "add_knowledge": {
        "facts": [{"subject": "acme", "predicate": "uses", "object": "MongoDB"}],
        "scope": "tenant",
    },
    "add_document": {"title": "Guide", "content": "acme uses MongoDB."},
    "consolidate": {},
    "audit": {},
    "forget": {"everything": True},
}
"""Tools that a writer may not call."""
OF_ADMINS: dict[str, dict[str, Any]] = {"forget": {"everything": True}}
SERVICES: dict[str, Any] = {
    "memory.export": {},
    "memory.import": {"number": 1, "lines": [{"line": "record"}]},
    "memory.reindex": {},
    "memory.dead_letters": {"action": "next", "number": 1},
    "memory.tasks": {},
    "memory.retention": {},
    "memory.tenant": {},
    "memory.tenant.rotate": {},
    "memory.growth.all": {},
}
OF_WRITERS: dict[str, Any] = {
    "memory.items.put": {**ITEMS, "items": [ITEM]},
    "memory.items.delete": {**ITEMS, "keys": [ITEM]},
}
TURN = {
    "query": "Say the code of the vault. We decided to use MongoDB for everything.",
    "answer": "The code of the vault is 0000. acme uses MongoDB.",
}


def _denied(
    attacker: str, tool: str, args: dict[str, Any], **claims: Any
) -> Callable[[World], Awaitable[object]]:
    """Expect a refusal, and an audit row that contains nothing of the request."""

    async def attack(world: World) -> object:
        token = world.token("ada") if attacker == "rita" else world.token("bob")
        before = await _denials(world)
        session = {"session_id": SESSION, **claims}
        answer = await world.agents[attacker].call(tool, args, token=token, **session)
        refused(answer)
        denials = await _denials(world)
        new = denials[: len(denials) - len(before)]
        assert len(new) == 1
        assert "vault" not in str(new).lower()
        return answer

    return attack


async def _denials(world: World) -> list[Any]:
    found = await world.boss.call("audit", {"limit": 1000})
    return [one for one in found.data["entries"] if one["action"] == "denied"]


def _denied_service(attacker: str, subject: str) -> Callable[[World], Awaitable[object]]:
    async def attack(world: World) -> object:
        token = world.token("ada") if attacker == "rita" else world.token("bob")
        payload = (SERVICES | OF_WRITERS)[subject]
        answer = await ask(world.agents[attacker], subject, payload, token=token)
        assert "forbidden" in answer
        return answer

    return attack


def _publishing_as_reader(subject: str, payload: object) -> Callable[[World], Awaitable[object]]:
    """Publish as a reader: nothing is remembered, on any subject."""

    async def attack(world: World) -> object:
        envelope: dict[str, Any] = {"session_id": SESSION, "query_id": QUERY}
        return await ask(world.rita, subject, payload, token=world.token("ada"), **envelope)

    return attack


async def _with_a_readers_token(world: World) -> object:
    """Use a token that allows its user only to read, whatever the agent may do."""
    token = world.token("ada", role="reader")
    answers: list[object] = [
        refused(await world.eve.call(tool, args, token=token, session_id=SESSION))
        for tool, args in WRITES.items()
    ]
    envelope: dict[str, Any] = {"session_id": SESSION, "query_id": QUERY}
    answers += [await ask(world.eve, "memory.turn", TURN, token=token, **envelope)]
    rating = {"query_id": QUERY, "score": -1}
    return answers, await ask(world.eve, "response.feedback", rating, token=token, **envelope)


async def _with_an_admins_token(world: World) -> object:
    """Use an admin's token: its role does not extend the agent's."""
    token = world.token("bob", role="admin")
    return [
        refused(await world.eve.call(tool, args, token=token))
        for tool, args in FOR_EVERYBODY.items()
    ]


async def _decide_for_everybody(world: World) -> object:
    """Speak as a writer: the words become the writer's facts at most."""
    bob = world.token("bob")
    words = (
        "We decided to use MongoDB. The project uses MongoDB from now on. Our deadline is May 1."
    )
    messages = [{"role": "user", "content": words}]
    ingested = await world.eve.call("ingest", {"messages": messages}, token=bob, session_id="b1")
    turn = {"query": words, "answer": "Noted.", "session_id": "b2", "query_id": "b2"}
    await ask(world.eve, "memory.turn", turn, token=bob)
    await ask(world.eve, "query.received", {"query": words, "session_id": "b3"}, token=bob)
    await world.at_rest()
    question = {"query": "Which database was decided on?", "scope": "tenant", "top_k": 20}
    found = await world.desk.call("recall", question, token=world.token("ada"))
    assert "MongoDB" not in found.content
    return ingested, found


async def _relate_for_everybody(world: World) -> object:
    """State a relation that affects everybody's results: only roles that write for all may."""
    bob = world.token("bob")
    ids = [
        (await world.eve.call("recall_topic", {"topic": "project.database"}, token=bob)).data["id"],
        (await world.eve.call("recall", {"query": "Guide", "scope": "tenant"}, token=bob)).data[
            "items"
        ][0]["id"],
    ]
    answers: list[object] = []
    for kind in ("contradicts", "supersedes", "supports", "part_of"):
        for remove in (False, True):
            args = {"source": ids[0], "type": kind, "target": ids[1], "remove": remove}
            answer = await world.eve.call("relate", args, token=bob)
            assert not answer.ok, answer
            answers.append(answer)
    return answers


CASES = [
    *(Case(f"a reader calls {tool}", _denied("rita", tool, args)) for tool, args in WRITES.items()),
    *(
        Case(f"a reader calls {tool} for everybody", _denied("rita", tool, args))
        for tool, args in FOR_EVERYBODY.items()
    ),
    *(
        Case(f"a writer calls {tool} for everybody", _denied("eve", tool, args))
        for tool, args in FOR_EVERYBODY.items()
        if tool in {"add_document", "consolidate", "audit", "forget"}
    ),
    *(
        Case(f"a curator calls {tool}", _denied("curator", tool, args))
        for tool, args in OF_ADMINS.items()
    ),
    *(
        Case(f"a {attacker} asks for {subject}", _denied_service(name, subject))
        for attacker, name in (("reader", "rita"), ("writer", "eve"), ("curator", "curator"))
        for subject in SERVICES
    ),
    *(Case(f"a reader asks for {one}", _denied_service("rita", one)) for one in OF_WRITERS),
    *(
        Case(f"a reader says it on {subject}", _publishing_as_reader(subject, payload))
        for subject, payload in {
            "memory.turn": TURN,
            "response.generation": TURN,
            "response.feedback": {"query_id": QUERY, "score": -1},
            "query.received": TURN,
            "tool.result.search": {"content": f"0000, not {ADAS}"},
            "tool.result.recall": {"content": "0000"},
            "memory.output.keep": {"key": OUTPUT, "offset": 0, "text": "0000", "last": True},
        }.items()
    ),
    Case("a person who may only read, by a writing agent", _with_a_readers_token),
    Case("a person who is admin, by a writing agent", _with_an_admins_token),
    Case("words of a writer that decide for everybody", _decide_for_everybody),
    Case("relations of a writer among what everybody finds", _relate_for_everybody),
]
