"""`run_local.py` with a probe in its event loop, for the abuse benchmark.

The probe is due every two milliseconds. Whenever it runs late, it appends a line with the delay in
seconds to the file that an environment variable names.
"""

import asyncio
import os
import sys
import time
from pathlib import Path

STALLS = "ABUSE_STALLS"
"""Environment variable with the path of the file."""
BEAT = 0.002
LATE = 0.01
"""Minimum delay to report, in seconds."""


def probe(file: Path) -> None:
    """Watch the running loop until it ends."""
    loop = asyncio.get_running_loop()
    lines = file.open("a", buffering=1, encoding="ascii")

    def beat(due: float) -> None:
        now = time.perf_counter()
        if now - due > LATE:
            print(now - due, file=lines)
        loop.call_later(BEAT, beat, now + BEAT)

    beat(time.perf_counter())


if __name__ == "__main__":
    from local2.cli import app, up

    favour = up._favour_event_loop  # noqa: SLF001 - the first that is done on the loop

    def favour_and_probe() -> None:
        favour()
        probe(Path(os.environ[STALLS]))

    up._favour_event_loop = favour_and_probe  # noqa: SLF001
    app(["up", *sys.argv[1:]])
