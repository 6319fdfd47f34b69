"""The bus for programs outside of the stack: commands, stories and other front ends."""

from local.bus.connection import BusMessage, Connection, connect
from local.bus.streams import publish_durably
from local.bus.tool_host import ToolHost

__all__ = ["BusMessage", "Connection", "ToolHost", "connect", "publish_durably"]
