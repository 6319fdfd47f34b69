"""Hooks forget sessions that ended, and those that were not used for long."""

import os
import time
from pathlib import Path

from local2.hooks.state import SESSION_SECONDS, HookSessions, Session


def test_the_end_of_a_session_removes_it_and_long_unused_ones(tmp_path: Path) -> None:
    sessions = HookSessions(tmp_path, "codex")
    kept = Session(query="What is kept?")
    sessions.save("old", kept)
    (old,) = tmp_path.glob("*.json")
    sessions.save("ended", kept)
    sessions.save("used", kept)
    long_ago = time.time() - SESSION_SECONDS - 60
    os.utime(old, (long_ago, long_ago))

    sessions.end("ended")

    assert sessions.load("used") == kept
    assert sessions.load("ended") == sessions.load("old") == Session()
