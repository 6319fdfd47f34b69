"""Bus access for programs outside the stack: commands, stories and other front ends."""

from local.bus.connection import BusMessage, Connection, connect
from local.bus.outputs import READS_ON, fitting
from local.bus.streams import publish_durably
from local.bus.tool_host import ToolHost

__all__ = [
    "READS_ON",
    "BusMessage",
    "Connection",
    "ToolHost",
    "connect",
    "fitting",
    "publish_durably",
]
