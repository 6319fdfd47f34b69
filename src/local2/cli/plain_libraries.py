"""Imports httpx and structlog without rich, pygments and h2, which they import if they find them.

A stack has no use for tracebacks in colours, nor for HTTP/2. Whatever imports rich later gets it.
"""

import sys

_hidden = [name for name in ("h2", "pygments", "rich") if name not in sys.modules]
sys.modules.update(dict.fromkeys(_hidden))  # type: ignore[arg-type]

import httpx  # noqa: E402, F401
import structlog  # noqa: E402, F401

for _name in _hidden:
    del sys.modules[_name]
