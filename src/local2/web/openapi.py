"""The OpenAPI document: made of what tools and services declare, so that it lists all of them."""

import inspect
from collections.abc import Iterable
from http import HTTPStatus
from typing import Any

import msgspec

from local2._version import __version__
from local2.protocol.memory_tools import (
    EDIT_MEMORY,
    FORGET,
    MEMORY_HISTORY,
    TOOLS,
    EditedMemory,
    Receipt,
    Version,
)
from local2.protocol.payloads import Empty, Json, ToolSchema
from local2.protocol.services import BROWSE, SERVICES
from local2.protocol.tool import parameters_of
from local2.web.answers import JSON, PROBLEM, Problem
from local2.web.callers import AGENT_HEADER, SESSION_HEADER, USER_HEADER

PREFIX = "/v1/"
TOOLS_PATH, SERVICES_PATH, MEMORIES_PATH = "/v1/tools", "/v1/services", "/v1/memories"
EVENTS_PATH, DOCUMENT_PATH = "/v1/events", "/v1/openapi.json"
REFERENCE = "#/components/schemas/"
DESCRIPTION = (
    "The memory of agents over HTTP. Each tool and each service of the bus has a path; arguments "
    "and answers are the same as there."
)
_, _of_browse = msgspec.json.schema_components([BROWSE.request])
BROWSE_QUERY: dict[str, Json] = {
    # What may be null is left out of an address instead.
    name: next(part for part in field.get("anyOf", [field]) if part.get("type") != "null")
    for name, field in _of_browse[BROWSE.request.__name__]["properties"].items()
}
"""The fields of a request to browse, as parameters of an address."""
BROWSE_LISTS = {name for name, field in BROWSE_QUERY.items() if field["type"] == "array"}


def document(tools: Iterable[ToolSchema], url: str) -> Json:
    """The document for these tools and all services, served at this URL."""
    data_of: dict[str, type[msgspec.Struct]] = {tool.name: tool.answer for tool in TOOLS}
    types: set[type[msgspec.Struct]] = {
        type_
        for service in SERVICES
        for type_ in (service.request, service.answer)
        if issubclass(type_, msgspec.Struct)
    }
    types |= {*data_of.values(), Version, Problem}
    _, declared = msgspec.json.schema_components(
        sorted(types, key=lambda type_: type_.__name__), ref_template=f"{REFERENCE}{{name}}"
    )
    schemas = {name: _for_clients(schema) for name, schema in declared.items()}
    paths: Json = {}
    for tool in tools:
        arguments = _self_contained(tool.tool_schema.function.parameters)
        schemas[f"{tool.name}.arguments"] = arguments
        answer: Json = {
            "type": "object",
            "description": "`content` is text for a model, `data` is for programs.",
            "properties": {"content": {"type": "string"}},
            "required": ["content"],
        }
        if tool.reads_memory and tool.name in data_of:
            answer["properties"]["data"] = _reference(data_of[tool.name].__name__)
            answer["required"].append("data")
        else:
            answer["description"] += (
                " With `tool_output_key`, `content` is a preview of `total_chars` characters, "
                "which `read_tool_output` reads."
            )
            answer["properties"] |= {
                "data": _self_contained(tool.output_schema or {}),
                "tool_output_key": {"type": "string"},
                "total_chars": {"type": "integer"},
            }
        schemas[f"{tool.name}.answer"] = answer
        paths[f"{TOOLS_PATH}/{tool.name}"] = {
            "post": _operation(
                tool.name,
                tool.title or tool.name,
                tag="tools" if tool.reads_memory else "tools of others",
                description=tool.description,
                body=_reference(f"{tool.name}.arguments"),
                is_body_required=bool(arguments.get("required")),
                answer=_reference(f"{tool.name}.answer"),
            )
        }
    for service in SERVICES:
        takes_payload = issubclass(service.request, msgspec.Struct)
        request = (service.request if takes_payload else Empty).__name__
        paths[f"{SERVICES_PATH}/{service.subject}"] = {
            "post": _operation(
                service.subject,
                service.title,
                tag="services",
                body=_reference(request),
                is_body_required=bool(schemas[request].get("required")),
                answer=_reference(service.answer.__name__),
            )
        }
    paths[MEMORIES_PATH] = {
        "get": _operation(
            "memories.list",
            BROWSE.title,
            tag="memories",
            description=schemas[BROWSE.request.__name__]["description"],
            query=[
                {"name": name, "in": "query", "schema": _for_clients(field)}
                for name, field in BROWSE_QUERY.items()
            ],
            answer=_reference(BROWSE.answer.__name__),
        )
    }
    edit = _for_clients(parameters_of(EDIT_MEMORY.args))
    fields = {name: field for name, field in edit["properties"].items() if name != "id"}
    required = [name for name in edit["required"] if name in fields]
    changes = {**edit, "properties": fields, "required": required}
    paths[f"{MEMORIES_PATH}/{{id}}"] = {
        "parameters": [
            {
                "name": "id",
                "in": "path",
                "required": True,
                "description": "The id of a memory, as answers name it.",
                "schema": {"type": "string", "minLength": 1, "maxLength": 256},
            }
        ],
        "get": _operation(
            "memories.get",
            "Read a memory by its id",
            tag="memories",
            description=f"The version with this id; `{MEMORY_HISTORY.name}` lists all of them.",
            answer=_reference(Version.__name__),
        ),
        "patch": _operation(
            "memories.update",
            EDIT_MEMORY.title,
            tag="memories",
            description=EDIT_MEMORY.description,
            body=changes,
            is_body_required=True,
            answer=_reference(EditedMemory.__name__),
        ),
        "delete": _operation(
            "memories.delete",
            "Erase a memory for good",
            tag="memories",
            description=f"Like `{FORGET.name}` with this id: all its versions are erased.",
            answer=_reference(Receipt.__name__),
            is_repeatable=True,
        ),
    }
    paths[EVENTS_PATH] = {
        "get": _operation(
            "events",
            "Receive changes of the memory as they happen",
            tag="events",
            description="Server-sent events, from now on: `event` is the subject of the bus, "
            "`data` the message as JSON. Ids and kinds, never content.",
            answer={"type": "string"},
            media_type="text/event-stream",
        )
    }
    return {
        "openapi": "3.1.0",
        "info": {"title": "local2", "version": __version__, "description": DESCRIPTION},
        "servers": [{"url": url}],
        "security": [{"token": []}],
        "paths": paths,
        "components": {
            "securitySchemes": {"token": {"type": "http", "scheme": "bearer"}},
            "schemas": schemas,
            "parameters": {
                "user": _header(USER_HEADER, "Who asks; with accounts, the token says it."),
                "agent": _header(AGENT_HEADER, "The agent that asks."),
                "session": _header(SESSION_HEADER, "The session."),
                "key": _header(
                    "Idempotency-Key", "A repetition with the same key gets the first answer."
                ),
            },
            "responses": {
                "problem": {
                    "description": "Why the request failed, and what to do.",
                    "content": {PROBLEM: {"schema": _reference(Problem.__name__)}},
                }
            },
        },
    }


def _operation(
    operation_id: str,
    summary: str,
    *,
    tag: str,
    answer: Json,
    description: str = "",
    query: Iterable[Json] = (),
    body: Json | None = None,
    is_body_required: bool = False,
    is_repeatable: bool = False,
    media_type: str = JSON,
) -> Json:
    names = ["user", "agent", "session", *(["key"] if body or is_repeatable else [])]
    operation: Json = {
        "operationId": operation_id,
        "summary": summary,
        "description": description,
        "tags": [tag],
        "parameters": [
            *query,
            *({"$ref": f"#/components/parameters/{name}"} for name in names),
        ],
        "responses": {
            str(HTTPStatus.OK.value): {
                "description": "The answer.",
                "content": {media_type: {"schema": answer}},
            },
            "default": {"$ref": "#/components/responses/problem"},
        },
    }
    if body is not None:
        operation["requestBody"] = {
            "required": is_body_required,
            "content": {JSON: {"schema": body}},
        }
    return operation


def _self_contained(schema: Json) -> Json:
    """A tool's schema; one that refers to parts of itself would refer to parts of the document."""
    refers = b'"$ref"' in msgspec.json.encode(schema)
    return _for_clients({"type": "object"} if refers else schema)


def _for_clients(schema: Json) -> Json:
    """The schema as generators of clients need it to make types that hold.

    Many take a field with a `default` as one that is always there, in requests as in answers, and
    a choice or an object as nothing in particular unless its type, or what it holds, is stated.
    """
    found: Json = {}
    for keyword, value in schema.items():
        match keyword, value:
            case "default", _:
                pass
            case "description", str():
                found[keyword] = inspect.cleandoc(value)
            case "properties", dict():
                found[keyword] = {name: _part_for_clients(part) for name, part in value.items()}
            case "anyOf" | "oneOf" | "allOf" | "prefixItems", list():
                found[keyword] = [_part_for_clients(part) for part in value]
            case "items" | "additionalProperties", _:
                found[keyword] = _part_for_clients(value)
            case _:
                found[keyword] = value
    if default := schema.get("default"):
        stated = f"Default: {msgspec.json.encode(default).decode()}."
        found["description"] = f"{found.get('description', '')} {stated}".strip()
    choices = found.get("enum")
    if choices and "type" not in found and all(isinstance(choice, str) for choice in choices):
        found["type"] = "string"
    if found.get("type") == "object" and not found.keys() & {"properties", "additionalProperties"}:
        found["additionalProperties"] = True
    return found


def _part_for_clients(schema: Any) -> Any:
    """The same for a part, which may also be `true` or `false`."""
    return _for_clients(schema) if isinstance(schema, dict) else schema


def _reference(name: str) -> Json:
    return {"$ref": f"{REFERENCE}{name}"}


def _header(name: str, description: str) -> Json:
    return {"name": name, "in": "header", "description": description, "schema": {"type": "string"}}
