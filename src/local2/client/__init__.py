"""Bus access for programs outside the stack: commands, stories and other front ends."""

from local2.bus.connection import BusMessage, Connection, connect
from local2.bus.outputs import READ_OUTPUT_TOOL, fit_result
from local2.bus.streams import publish_durably

__all__ = [
    "READ_OUTPUT_TOOL",
    "BusMessage",
    "Connection",
    "connect",
    "fit_result",
    "publish_durably",
]
