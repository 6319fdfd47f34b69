"""`run_local.py` for the fault benchmark, which injects hundreds of faults within minutes.

Pauses that grow from one fault to the next stay short, and JetStream redelivers after two seconds,
not thirty. The clock is ahead by the number of seconds in a file.
"""

import os
import sys
from datetime import UTC, datetime, timedelta
from pathlib import Path

from local2.protocol import envelope

CLOCK = "FAULTS_CLOCK"
"""Environment variable with the path of that file."""
SECONDS = 2.0


def now() -> datetime:
    """Return the time, shifted by the file's seconds."""
    ahead = Path(os.environ[CLOCK]).read_text(encoding="ascii")
    return datetime.now(UTC) + timedelta(seconds=float(ahead))


if __name__ == "__main__":
    envelope.utc_now = now  # before other modules import it from there
    from local2.agents import stream_monitor
    from local2.bus import streams
    from local2.cli import app
    from local2.memory import indexing
    from local2.stack import supervisor

    streams.ACK_WAIT = stream_monitor.MAX_PAUSE = SECONDS
    supervisor.LAST_DELAY = supervisor.FIRST_DELAY
    indexing.FIRST_PAUSE = indexing.LAST_PAUSE = supervisor.FIRST_DELAY
    app(["up", *sys.argv[1:]])
