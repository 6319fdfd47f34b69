"""How programs reach the memory over the bus; `memory.py` has `local2.connect`.

Front ends import from here what they need of the bus.
"""

from local2.bus.connection import BusMessage, Connection, connect
from local2.bus.outputs import READ_OUTPUT_TOOL, fit_result, store_output
from local2.bus.streams import publish_durably

__all__ = [
    "READ_OUTPUT_TOOL",
    "BusMessage",
    "Connection",
    "connect",
    "fit_result",
    "publish_durably",
    "store_output",
]
