"""Hooks of coding agents, which store turns and give the model memories without its asking.

Every prompt starts a hook as a new process, so hooks import little: no `nats`, no event loop, no
`click` (decision 0021).
"""

import time

BEGAN = time.monotonic()
"""The time when this process began, after the start of its interpreter."""
