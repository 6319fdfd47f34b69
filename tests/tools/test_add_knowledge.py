"""The tool that stores facts given as triplets."""

from typing import Any

import msgspec
import pytest

from calling import RICHARD, run_tool
from local2.errors import InvalidArgumentsError
from local2.memory.tenant import Memory
from local2.protocol.memory_tools import MAX_FACTS, MAX_PART, AddKnowledge
from local2.protocol.payloads import Json
from local2.protocol.tool import ToolOutput, parameters_of

ADA = {"subject": "Ada", "predicate": "works for", "object": "Northwind"}
BOSS = {"subject": "Zoltan Kiss", "predicate": "runs", "object": "Northwind"}


async def add(memory: Memory, *facts: object, **args: Any) -> ToolOutput:
    return await run_tool(memory, "add_knowledge", {"facts": facts, "scope": "user", **args})


async def test_the_answer_reports_the_outcome_for_each_fact(memory: Memory) -> None:
    first = await add(memory, ADA)
    both = await add(memory, ADA, BOSS)

    first_data, second_data = msgspec.to_builtins(first.data), msgspec.to_builtins(both.data)
    assert both.content == "Facts stored: 1 new, 1 already known."
    assert second_data["facts"][0] == {**first_data["facts"][0], "was_new": False}
    assert second_data["facts"][1]["was_new"]
    assert (first_data["added"], second_data["added"]) == (1, 1)


@pytest.mark.parametrize("scope", ["user", "tenant"])
async def test_the_facts_belong_to_the_given_scope(memory: Memory, scope: str) -> None:
    data = msgspec.to_builtins((await add(memory, ADA, scope=scope)).data)

    (record,) = await memory.of(RICHARD).facts.history(data["facts"][0]["id"])
    assert (record.scope, record.content) == (scope, "Ada works for Northwind.")


@pytest.mark.parametrize(
    ("facts", "args"),
    [
        pytest.param([], {}, id="none"),
        pytest.param([ADA] * (MAX_FACTS + 1), {}, id="too many"),
        pytest.param([ADA | {"object": "x" * (MAX_PART + 1)}], {}, id="too long"),
        pytest.param([ADA | {"object": ""}], {}, id="empty"),
        pytest.param([ADA | {"object": 3}], {}, id="number"),
        pytest.param([{"subject": "Ada", "predicate": "works"}], {}, id="part missing"),
        pytest.param([ADA | {"certainty": 1}], {}, id="unknown part"),
        pytest.param([ADA], {"scope": "session"}, id="scope of no facts"),
        pytest.param([ADA], {"user": "eve"}, id="another user"),
    ],
)
async def test_arguments_out_of_bounds_are_refused_and_nothing_is_written(
    memory: Memory, facts: list[Json], args: Json
) -> None:
    with pytest.raises(InvalidArgumentsError):
        await add(memory, *facts, **args)
    assert (await memory.ledger.counts()).records == 0


def test_the_schema_names_all_three_parts_without_references() -> None:
    parameters = parameters_of(AddKnowledge)

    assert parameters["required"] == ["facts"]
    assert parameters["properties"]["facts"]["items"]["required"] == list(ADA)
