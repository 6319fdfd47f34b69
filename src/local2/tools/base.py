"""Serve the memory's tools, which `protocol/memory_tools.py` declares, with their functions."""

from collections.abc import Awaitable, Callable
from typing import Any, TypeVar

from local2 import telemetry
from local2.memory.service import MemoryService
from local2.memory.tenant import Memories
from local2.protocol.envelope import Caller
from local2.protocol.memory_tools import Arguments, MemoryTool
from local2.protocol.payloads import ToolResult
from local2.protocol.tool import Tool, ToolDeclaration, ToolOutput

A = TypeVar("A", bound=Arguments)
Function = Callable[[MemoryService, A], Awaitable[ToolOutput]]

_functions: dict[str, Function[Any]] = {}
"""The functions of the tools, by the tools' names."""


def answers(tool: MemoryTool[A, Any]) -> Callable[[Function[A]], Function[A]]:
    """Make the decorated function the one that answers the calls of a tool."""

    def register(function: Function[A]) -> Function[A]:
        _functions[tool.name] = function
        return function

    return register


def bind(tool: MemoryTool[A, Any], memories: Memories) -> Tool:
    """Make a tool for a host. The caller is taken from the bus, never from arguments."""
    function: Function[A] = _functions[tool.name]

    async def run(caller: Caller, arguments: A) -> ToolOutput:
        action = tool.action(arguments) if tool.action else tool.name
        if telemetry.tracer is None or tool.operation is None:
            return await function(await memories.admit(caller, action), arguments)
        with telemetry.memory_operation(tool.operation, caller.tenant) as count:
            output = await function(await memories.admit(caller, action), arguments)
            if tool.operation == "search_memory":
                count(len(list(tool.shows(output.data))))
            return output

    def log_answer(caller: Caller, result: ToolResult) -> None:
        ids = tool.shows(result.data) if result.ok else ()
        memories.of_tenant(caller.tenant).answer_log.add(caller, tool.name, result.content, ids)

    return Tool(
        **{name: getattr(tool, name) for name in ToolDeclaration.__struct_fields__},
        run=run,
        on_result=log_answer,
    )
