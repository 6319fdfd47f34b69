"""What hooks of one session leave for the next: each is a process of its own.

A file a session, in the data folder; it holds the prompt of the turn that goes on, and is removed
when the session ends.
"""

import time
from contextlib import suppress
from datetime import datetime
from pathlib import Path

import msgspec

from local.protocol.envelope import content_id

FORGOTTEN = 7 * 24 * 3600.0
"""Seconds after which a session that never ended is over."""


class Session(msgspec.Struct, kw_only=True, omit_defaults=True):
    """`reminded`: it was given what matters most. `compacted`: its beginning is a summary now."""

    query_id: str | None = None
    query: str | None = None
    at: datetime | None = None
    answers: list[str] = []
    reminded: bool = False
    compacted: bool = False


class Sessions:
    """The sessions of one client."""

    def __init__(self, folder: Path, client: str) -> None:
        self._folder = folder
        self._client = client

    def load(self, id_: str) -> Session:
        """The session; an unknown one has begun just now."""
        with suppress(OSError, msgspec.MsgspecError):
            return msgspec.json.decode(self._file(id_).read_bytes(), type=Session)
        return Session()

    def save(self, id_: str, session: Session) -> None:
        write(self._file(id_), msgspec.json.encode(session))

    def end(self, id_: str) -> None:
        """Remove the session, and those that nobody has gone on with for long."""
        self._file(id_).unlink(missing_ok=True)
        for file in self._folder.glob("*.json"):
            with suppress(FileNotFoundError):
                if time.time() - file.stat().st_mtime > FORGOTTEN:
                    file.unlink()

    def _file(self, id_: str) -> Path:
        return self._folder / f"{content_id(self._client, id_)}.json"


def write(file: Path, data: bytes) -> None:
    """Write a whole file, or none of it."""
    file.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    temporary = file.with_suffix(".tmp")
    temporary.write_bytes(data)
    temporary.replace(file)
