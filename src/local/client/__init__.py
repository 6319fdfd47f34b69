"""Bus access for programs outside the stack: commands, stories and other front ends."""

from local.bus.connection import BusMessage, Connection, connect
from local.bus.outputs import READ_OUTPUT_TOOL, fit_result
from local.bus.streams import publish_durably
from local.bus.tool_host import ToolHost

__all__ = [
    "READ_OUTPUT_TOOL",
    "BusMessage",
    "Connection",
    "ToolHost",
    "connect",
    "fit_result",
    "publish_durably",
]
