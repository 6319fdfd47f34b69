"""NATS: connections, participants and tool hosts, JetStream's streams, the server, the lease."""

import sys
from importlib import import_module

# nats-py imports aiohttp, where it is installed, for servers over WebSockets, which local2 does not
# use. It would be almost half of what a command imports.
if "aiohttp" not in sys.modules:
    sys.modules["aiohttp"] = None  # type: ignore[assignment]
    try:
        import_module("nats.aio.transport")
    finally:
        del sys.modules["aiohttp"]
