"""Facts are extracted from users' statements if the settings ask for it."""

from collections.abc import AsyncIterator

import pytest

from calling import RICHARD
from factories import StartGenerator
from local2.bus.connection import Connection
from local2.bus.tool_host import ToolHost
from local2.client.queries import QueryClient
from local2.generator.agent import GeneratorAgent
from local2.llm.rules import RulesModel
from local2.memory.tenant import Memories, Memory
from local2.protocol.memory_tools import ADD_KNOWLEDGE
from local2.settings import GeneratorSettings
from local2.tools.catalog import bind
from recalling import recall
from stand_ins.ollama_server import OllamaStandIn
from waiting import eventually

STATEMENT = "Bob works for Northwind."


@pytest.fixture
async def add_knowledge(bus: Connection, memory: Memory) -> AsyncIterator[None]:
    async with ToolHost(bus, bind(ADD_KNOWLEDGE, Memories(memory))):
        yield


async def facts(memory: Memory) -> list[str]:
    return await recall(memory.of(RICHARD), "Bob Northwind", kinds=("fact",))


@pytest.mark.usefixtures("add_knowledge", "memory_agent")
async def test_without_a_model_rules_extract_facts(
    bus: Connection, client: QueryClient, memory: Memory
) -> None:
    async with GeneratorAgent(bus, RulesModel(), GeneratorSettings(knowledge=True)):
        await client.ask(STATEMENT, caller=RICHARD)

        await eventually(lambda: facts(memory), lambda found: found == ["Bob works for Northwind."])


@pytest.mark.usefixtures("add_knowledge")
async def test_a_chat_model_extracts_facts(
    start: StartGenerator, client: QueryClient, ollama: OllamaStandIn, memory: Memory
) -> None:
    triplet = {"subject": "Bob", "predicate": "is employed by", "object": "Northwind"}
    ollama.script_json({"facts": [triplet]})
    await start(tools=1, knowledge=True)
    await client.ask(STATEMENT, caller=RICHARD)

    async def learned() -> bool:
        return await facts(memory) == ["Bob is employed by Northwind."]

    await eventually(learned)
    assert ollama.materials()[0]["text"] == STATEMENT


@pytest.mark.usefixtures("add_knowledge")
async def test_nothing_is_extracted_by_default(
    start: StartGenerator, client: QueryClient, ollama: OllamaStandIn, memory: Memory
) -> None:
    await start(tools=1)
    await client.ask(STATEMENT, caller=RICHARD)
    await client.ask("Hello", caller=RICHARD)

    assert ollama.materials() == []
    assert await facts(memory) == []


@pytest.mark.usefixtures("add_knowledge")
async def test_a_failed_extraction_does_not_fail_the_turn(
    start: StartGenerator, client: QueryClient, ollama: OllamaStandIn
) -> None:
    ollama.script_json("no facts at all", "none again")
    await start(tools=1, knowledge=True)

    first = await client.ask(STATEMENT, caller=RICHARD)
    await eventually(lambda: len(ollama.materials()) == 2)
    second = await client.ask("Hello", caller=RICHARD)

    assert (first.error, second.error) == (None, None)


@pytest.mark.usefixtures("add_knowledge")
async def test_more_facts_than_one_call_accepts_are_all_stored_once(
    start: StartGenerator, client: QueryClient, ollama: OllamaStandIn, memory: Memory
) -> None:
    triplets = [
        {"subject": f"Bob {number}", "predicate": "works for", "object": "Northwind"}
        for number in range(130)
    ]
    ollama.script_json({"facts": triplets}, {"facts": triplets})
    await start(tools=1, knowledge=True)

    async def all_stored_once() -> bool:
        return (await memory.ledger.counts()).records == len(triplets) + 3 * turns

    for turns in (1, 2):
        await client.ask(STATEMENT, caller=RICHARD)
        await eventually(lambda: len(ollama.materials()) == turns)  # noqa: B023 - awaited in the loop
        await eventually(all_stored_once)
