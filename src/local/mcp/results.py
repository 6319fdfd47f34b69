"""Tools and their results in the form of the protocol."""

from typing import Any

import mcp_types as types
import msgspec

from local.protocol.payloads import ToolResult, ToolSchema


def as_tool(schema: ToolSchema) -> types.Tool:
    """A tool as clients list it, with its own JSON schema."""
    hints = schema.annotations
    return types.Tool(
        name=schema.name,
        title=schema.title or None,
        description=schema.description,
        input_schema=schema.tool_schema.function.parameters,
        annotations=types.ToolAnnotations(
            title=schema.title or None,
            read_only_hint=hints.read_only_hint,
            destructive_hint=hints.destructive_hint,
            idempotent_hint=hints.idempotent_hint,
            open_world_hint=hints.open_world_hint,
        ),
    )


def as_result(result: ToolResult) -> types.CallToolResult:
    """Text for the model beside data for programs; of a failure its code and what to do."""
    data: Any = msgspec.to_builtins(result.data)
    if result.error is not None:
        data = {"error": msgspec.to_builtins(result.error)}
    elif data is not None and not isinstance(data, dict):
        data = {"result": data}
    return types.CallToolResult(
        content=[types.TextContent(text=result.content)],
        structured_content=data,
        is_error=not result.ok,
    )
