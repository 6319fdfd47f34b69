"""Where hooks say what went wrong: in a file, since nothing of it is the client's concern."""

from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path

from local.errors import Local2Error

FILE = Path("logs", "hooks.log")
LARGE = 1_000_000
"""Bytes; a larger log becomes the one before."""


def log_problem(data_dir: Path, where: str, error: BaseException) -> None:
    """Add a line without anything that was said; where none can be written, none is."""
    what = error.logged if isinstance(error, Local2Error) else f"{type(error).__name__}"
    file = data_dir / FILE
    with suppress(OSError):
        file.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        if file.exists() and file.stat().st_size > LARGE:
            file.replace(file.with_suffix(".log.1"))
        with file.open("a", encoding="utf-8") as log:
            log.write(f"{datetime.now(UTC).isoformat(timespec='milliseconds')} {where}: {what}\n")
