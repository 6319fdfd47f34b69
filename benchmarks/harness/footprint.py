"""The processes of a stack and the memory they hold, as reported by Linux."""

import os
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

import msgspec

from local2.home import RUNTIME_FILE, Runtime

PROCESSES = Path("/proc")
VECTOR_WORKER = b"local2.agents.vector_worker"
NATS_SERVER = b"nats-server"


class Memory(NamedTuple):
    """Resident bytes of a stack's main process and of its vector worker; 0 if there is none."""

    main: int
    worker: int


def stack_memory(data_dir: Path) -> Memory:
    """Return the current memory of the stack on this data folder."""
    main = main_process(data_dir)
    if main is None:
        return Memory(0, 0)
    return Memory(resident(main), sum(map(resident, children(main, VECTOR_WORKER))))


def main_process(data_dir: Path) -> int | None:
    """Return the process of the stack on this data folder, read from its runtime file."""
    with suppress(OSError, msgspec.MsgspecError):
        return msgspec.json.decode((data_dir / RUNTIME_FILE).read_bytes(), type=Runtime).pid
    return None


def children(parent: int, command: bytes) -> Iterator[int]:
    """Yield the children of this process with this text in their command line."""
    with suppress(OSError):
        for pid in (PROCESSES / f"{parent}/task/{parent}/children").read_text().split():
            with suppress(OSError):
                if command in (PROCESSES / pid / "cmdline").read_bytes():
                    yield int(pid)


def resident(pid: int) -> int:
    """Return the bytes of memory that a process holds; 0 if it has ended."""
    with suppress(OSError):
        pages = (PROCESSES / f"{pid}/statm").read_text().split()[1]
        return int(pages) * os.sysconf("SC_PAGE_SIZE")
    return 0
