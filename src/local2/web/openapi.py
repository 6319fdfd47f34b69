"""The OpenAPI document: made of what tools and services declare, so that it lists all of them."""

from collections.abc import Iterable
from http import HTTPStatus

import msgspec

from local2._version import __version__
from local2.protocol.memory_tools import FORGET, MEMORY_HISTORY, Receipt, Version
from local2.protocol.payloads import Json, ToolSchema
from local2.protocol.services import SERVICES
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


def document(tools: Iterable[ToolSchema], url: str) -> Json:
    """The document for these tools and all services, served at this URL."""
    declared = {
        type_
        for service in SERVICES
        for type_ in (service.request, service.answer)
        if issubclass(type_, msgspec.Struct)
    }
    types = [*sorted(declared, key=lambda type_: str(type_.__name__)), Problem, Version, Receipt]
    _, schemas = msgspec.json.schema_components(types, ref_template=f"{REFERENCE}{{name}}")
    paths: Json = {}
    for tool in tools:
        arguments = _self_contained(tool.tool_schema.function.parameters)
        schemas[f"{tool.name}.arguments"] = arguments
        schemas[f"{tool.name}.answer"] = _tool_answer(_self_contained(tool.output_schema or {}))
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
        request: Json = {"type": "object"}
        if issubclass(service.request, msgspec.Struct):
            request = _reference(service.request.__name__)
        paths[f"{SERVICES_PATH}/{service.subject}"] = {
            "post": _operation(
                service.subject,
                service.title,
                tag="services",
                body=request,
                is_body_required=False,
                answer=_reference(service.answer.__name__),
            )
        }
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
        "parameters": [{"$ref": f"#/components/parameters/{name}"} for name in names],
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


def _tool_answer(data: Json) -> Json:
    return {
        "type": "object",
        "description": "`content` is text for a model, `data` is for programs. With "
        "`tool_output_key`, `content` is a preview of `total_chars` characters, which "
        "`read_tool_output` reads.",
        "properties": {
            "content": {"type": "string"},
            "data": data,
            "tool_output_key": {"type": "string"},
            "total_chars": {"type": "integer"},
        },
        "required": ["content"],
    }


def _self_contained(schema: Json) -> Json:
    """A tool's schema; one that refers to parts of itself would refer to parts of the document."""
    return {"type": "object"} if b'"$ref"' in msgspec.json.encode(schema) else schema


def _reference(name: str) -> Json:
    return {"$ref": f"{REFERENCE}{name}"}


def _header(name: str, description: str) -> Json:
    return {"name": name, "in": "header", "description": description, "schema": {"type": "string"}}
