"""The OpenAPI document is valid, and has every tool and service."""

import asyncio
from typing import Any

import httpx
import pytest
from openapi_schema_validator import OAS31Validator
from openapi_spec_validator import OpenAPIV31SpecValidator

from commands import Served
from http_servers import call, problem, team_tool
from local2.protocol.memory_tools import TOOLS
from local2.protocol.services import SERVICES
from waiting import eventually

EDIT = {"content": "As it is stated", "reason": "A word was missing."}


@pytest.fixture
def document(ada: httpx.Client) -> dict[str, Any]:
    found: dict[str, Any] = ada.get("/v1/openapi.json").json()
    return found


def test_the_document_is_valid_and_has_everything(document: dict[str, Any]) -> None:
    OpenAPIV31SpecValidator(document).validate()
    paths = [f"/v1/tools/{tool.name}" for tool in TOOLS]
    paths += [f"/v1/services/{service.subject}" for service in SERVICES]

    of_local2 = {  # tools of others stay for a while: one that another test served may be there
        path
        for path, operations in document["paths"].items()
        if operations.get("post", {}).get("tags") != ["tools of others"]
    }

    assert document["openapi"] == "3.1.0"
    assert {*paths, "/v1/memories", "/v1/memories/{id}", "/v1/events"} == of_local2


def test_operations_have_names_of_their_own_and_say_what_they_answer(
    document: dict[str, Any],
) -> None:
    operations = [
        operation
        for path in document["paths"].values()
        for method, operation in path.items()
        if method != "parameters"
    ]
    names = [operation["operationId"] for operation in operations]

    assert len(names) == len(set(names))
    assert all(operation["responses"].keys() == {"200", "default"} for operation in operations)


def schema_of(document: dict[str, Any], name: str) -> dict[str, Any]:
    return {"$ref": f"#/components/schemas/{name}", "components": document["components"]}


def test_answers_have_the_form_that_the_document_states(
    document: dict[str, Any], ada: httpx.Client
) -> None:
    id_ = call(ada, "save_topic", topic="user.form", content="As stated")["data"]["id"]
    recalled = call(ada, "recall", query="form", explain=True)
    unknown = ada.post("/v1/tools/nothing")
    problem(unknown)

    for name, answer in (
        ("recall.answer", recalled),
        ("memory_history.answer", call(ada, "memory_history", topic_or_id="user.form")),
        ("Version", ada.get(f"/v1/memories/{id_}").json()),
        ("BrowsedPage", ada.get("/v1/memories", params={"topic": "user.form"}).json()),
        ("EditedMemory", ada.patch(f"/v1/memories/{id_}", json=EDIT).json()),
        ("MemoryStatus", ada.post("/v1/services/memory.status").json()),
        ("Receipt", ada.delete(f"/v1/memories/{id_}").json()),
        ("Problem", unknown.json()),
    ):
        OAS31Validator(schema_of(document, name)).validate(answer)


def test_generated_types_hold_for_what_is_left_out(document: dict[str, Any]) -> None:
    schemas = document["components"]["schemas"]
    arguments, item = schemas["recall.arguments"], schemas["RecalledItem"]

    # Many generators take a field with a default as one that is always there.
    assert "default" not in arguments["properties"]["top_k"]
    assert arguments["properties"]["top_k"]["description"].endswith("Default: 5.")
    assert "sources" not in item["required"]
    assert "default" not in item["properties"]["sources"]
    assert schemas["recall.answer"]["required"] == ["content", "data"]
    assert schemas["recall.answer"]["properties"]["data"]["$ref"].endswith("/RecalledItems")
    # Without a type, a choice is anything; without properties, an object is an empty one.
    assert schemas["LetterRequest"]["properties"]["action"]["type"] == "string"
    assert schemas["SearchItems"]["properties"]["filter"]["anyOf"][0]["additionalProperties"]
    assert document["paths"]["/v1/services/memory.explain"]["post"]["requestBody"]["required"]


async def test_tools_of_other_teams_are_in_it_and_cannot_break_it(
    stack: Served, ada: httpx.Client
) -> None:
    found: dict[str, Any] = {}

    async def has_jot() -> bool:
        answer = await asyncio.to_thread(ada.get, "/v1/openapi.json")
        found.update(answer.json())
        return "/v1/tools/jot" in found["paths"]

    async with team_tool(stack):
        await eventually(has_jot)
    operation = found["paths"]["/v1/tools/jot"]["post"]

    OpenAPIV31SpecValidator(found).validate()
    assert operation["tags"] == ["tools of others"]
    assert found["components"]["schemas"]["jot.arguments"]["required"] == ["text"]
