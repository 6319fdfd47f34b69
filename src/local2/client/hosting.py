"""Serving tools, for programs outside the stack. Callers of tools need not import it."""

from local2.bus.tool_host import ToolHost

__all__ = ["ToolHost"]
