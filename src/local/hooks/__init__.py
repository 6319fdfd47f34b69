"""Hooks of coding agents: they store turns and remind the model, whether or not it asks for it.

A hook is a process of its own at every prompt, so it imports little: no `nats`, no event loop, no
`typer` (decision 0072).
"""

import time

BEGAN = time.monotonic()
"""When this process began, apart from the start of its interpreter."""
