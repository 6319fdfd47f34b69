"""Hooks of coding agents: they remember, and are reminded, whether or not their model thinks of it.

A hook is a process of its own at every prompt, so what it imports is little: no `nats`, no event
loop, no `typer` (decision 0072).
"""

import time

BEGAN = time.monotonic()
"""When this process did, but for the start of its interpreter."""
