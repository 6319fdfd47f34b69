"""The entry point of the processes that a stack starts beside itself: runs the module it is given.

What such a process never uses is not imported, which saves 14 MB: where they are installed, nats-py
imports aiohttp for servers over WebSockets, structlog rich for tracebacks in colours, and httpx
pygments for a command, and h2 for HTTP/2.
"""

import runpy
import sys

if __name__ == "__main__":
    sys.modules.update(dict.fromkeys(("aiohttp", "h2", "pygments", "rich")))  # type: ignore[arg-type]
    runpy.run_module(sys.argv[1], run_name="__main__", alter_sys=True)
