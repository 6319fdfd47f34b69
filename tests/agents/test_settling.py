"""A model that is told what stands beside a new fact settles it, and only the new fact stands."""

import re
from typing import Any

import pytest

from calling import RICHARD
from factories import StartGenerator
from local2.client.queries import QueryClient
from local2.ledger.records import Fact
from local2.memory.tenant import Memory
from stand_ins.ollama_server import OllamaStandIn, Reply

GREEN = "Richard's favourite colour is green."
BLUE = "Richard's favourite colour is blue."


@pytest.mark.usefixtures("tools")
@pytest.mark.parametrize("way", ["replaces", "retire_fact"])
async def test_only_the_new_fact_stands_after_the_model_has_settled_it(
    memory: Memory,
    start: StartGenerator,
    client: QueryClient,
    ollama: OllamaStandIn,
    way: str,
) -> None:
    service = memory.of(RICHARD)
    green = await service.facts.store(Fact(content=GREEN, scope="user"))
    fact = {"content": BLUE, "scope": "user"}

    def settle(messages: list[dict[str, Any]], _: object) -> Reply:
        results = [message["content"] for message in messages if message["role"] == "tool"]
        if not results:
            return Reply(tool_calls=(("remember_fact", fact),))
        named = re.search(r"Also standing: \[(.+?)\]", results[-1])
        if named is None:
            return Reply(content="It is blue now.")
        if way == "replaces":
            return Reply(tool_calls=(("remember_fact", {**fact, "replaces": [named[1]]}),))
        retiring = {"ids": [named[1]], "reason": "The user prefers blue now."}
        return Reply(tool_calls=(("retire_fact", retiring),))

    ollama.responder = settle
    await start()
    turn = await client.ask("My favourite colour is blue now.", caller=RICHARD)

    assert turn.answer == "It is blue now."
    (before,) = (await memory.ledger.records.by_id([green.id])).values()
    assert before.superseded_by is not None
    new, *_ = await service.facts.history(green.id)
    assert new.content == (BLUE if way == "replaces" else GREEN)
    again = await service.facts.store(Fact(content=BLUE, scope="user"))
    assert not again.was_new
    assert await service.facts.related([again.id]) == []
