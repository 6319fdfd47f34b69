"""What hooks leave in the data folder for people: a log, counts of prompts, turns not stored.

Hooks write it (`hooks/`), `local2 doctor` and `local2 hooks list` read it. Hooks run side by side,
so each appends one short line to a file, which the system never mixes with others.
"""

from contextlib import suppress
from datetime import UTC, datetime, timedelta
from pathlib import Path

import msgspec

LOG_FILE = Path("logs", "hooks.log")
PROMPTS = Path("logs", "prompts")
"""The folder with a file for each client: the time of each prompt, and why it got no context."""
MAX_BYTES = 200_000
"""Maximum bytes of such a file; a larger one is put aside, and replaces the one before it."""
COUNTED_DAYS = 7
TURNS = Path("hooks", "turns")
"""The folder with a file for each finished turn, until it is stored."""
ASIDE = ".aside"
"""Suffix of the file of a finished turn that cannot be stored."""


class PromptCounts(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The prompts to a coding agent in the last days.

    `without` counts those that got no context though hooks tried, `last_problem` says why the last
    of these got none, and `last_at` when.
    """

    prompts: int
    without: int
    last_at: datetime | None = None
    last_problem: str | None = None

    def __str__(self) -> str:
        counted = f"{self.without} of {self.prompts} prompts in {COUNTED_DAYS} days without context"
        if self.last_at is None:
            return f"{counted}."
        return f"{counted}; the last at {self.last_at:%Y-%m-%d %H:%M} UTC: {self.last_problem}"


def count_prompt(data_dir: Path, client: str, problem: str = "") -> None:
    """Count a prompt; do nothing if its file cannot be written."""
    file = data_dir / PROMPTS / f"{client}.log"
    line = f"{datetime.now(UTC).isoformat(timespec='seconds')} {' '.join(problem.split())}\n"
    append_line(file, line, max_bytes=MAX_BYTES)


def append_line(file: Path, line: str, *, max_bytes: int) -> None:
    """Append to a file that several processes write; do nothing if it cannot be written.

    A file of more than `max_bytes` is put aside first, and replaces the one before it.
    """
    with suppress(OSError):
        file.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        if file.exists() and file.stat().st_size > max_bytes:
            file.replace(file.with_suffix(".log.1"))
        with file.open("a", encoding="utf-8") as appended:
            appended.write(line)


def counted_prompts(data_dir: Path) -> dict[str, PromptCounts]:
    """The counts of each client whose hooks have been run in the last days."""
    found = {}
    since = datetime.now(UTC) - timedelta(days=COUNTED_DAYS)
    for file in sorted((data_dir / PROMPTS).glob("*.log")):
        recent = []
        for part in (file.with_suffix(".log.1"), file):
            with suppress(OSError):
                for line in part.read_text(encoding="utf-8", errors="replace").splitlines():
                    time, _, problem = line.partition(" ")
                    with suppress(ValueError):
                        if (at := datetime.fromisoformat(time)) >= since:
                            recent.append((at, problem))
        problems = [(at, problem) for at, problem in recent if problem]
        last_at, last_problem = problems[-1] if problems else (None, None)
        if recent:
            found[file.stem] = PromptCounts(
                prompts=len(recent),
                without=len(problems),
                last_at=last_at,
                last_problem=last_problem,
            )
    return found


def turns_aside(data_dir: Path) -> str:
    """How many finished turns could not be stored, and where they are; empty if there are none."""
    folder = data_dir / TURNS
    count = len(list(folder.glob(f"*{ASIDE}")))
    return f"Finished turns that could not be stored: {count}, in {folder}." if count else ""
