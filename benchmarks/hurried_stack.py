"""`run_local.py` for the benchmark of faults, which come by hundreds within minutes.

Pauses that grow from one fault to the next stay short, and JetStream delivers again after two
seconds, not thirty. The clock is ahead by as many seconds as a file says.
"""

import os
import sys
from datetime import UTC, datetime, timedelta
from pathlib import Path

from local.protocol import envelope

CLOCK = "FAULTS_CLOCK"
"""The variable that names the file."""
SECONDS = 2.0


def now() -> datetime:
    """The time, set ahead or back."""
    ahead = Path(os.environ[CLOCK]).read_text(encoding="ascii")
    return datetime.now(UTC) + timedelta(seconds=float(ahead))


if __name__ == "__main__":
    envelope.utc_now = now  # before the other modules take it from there
    from local import supervisor
    from local.agents import stream_keeper
    from local.bus import streams
    from local.cli import app
    from local.memory import vectors

    streams.ACK_WAIT = stream_keeper.MAX_PAUSE = SECONDS
    supervisor.LAST_DELAY = supervisor.FIRST_DELAY
    vectors.FIRST_PAUSE = vectors.LAST_PAUSE = supervisor.FIRST_DELAY
    app(["up", *sys.argv[1:]])
