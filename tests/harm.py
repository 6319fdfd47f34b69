"""Harm to a stack's files and processes, or a substitute where the real one is not possible."""

import os
import resource
import sqlite3
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack, closing, contextmanager, suppress
from pathlib import Path
from tempfile import mkdtemp

LOCKING = """
import sqlite3, sys
other = sqlite3.connect(sys.argv[1], isolation_level=None, timeout=30)
other.execute("BEGIN IMMEDIATE")
print(flush=True)
sys.stdin.read()
"""


@contextmanager
def full_disk(*limits: tuple[int, int]) -> Iterator[None]:
    """Limit how far processes can write into a file. Linux only.

    The kernel refuses the same writes as on a full disk, to the same processes, and this does not
    need root.
    """

    def limit(pid: int, size: int) -> None:
        resource.prlimit(pid, resource.RLIMIT_FSIZE, (size, resource.RLIM_INFINITY))

    for pid, size in limits:
        limit(pid, size)
    try:
        yield
    finally:
        for pid, _ in limits:
            try:
                limit(pid, resource.RLIM_INFINITY)
            except ProcessLookupError:  # it has been restarted in the meantime
                continue


@contextmanager
def read_only(folder: Path) -> Iterator[None]:
    """Make a folder read-only; root can still write wherever the file system allows it.

    Raises:
        PermissionError: Root may not mount here.
    """
    with ExitStack() as undo:
        if os.geteuid():
            folder.chmod(0o555)
            undo.callback(folder.chmod, 0o755)
        else:
            aside = Path(mkdtemp())
            undo.callback(aside.rmdir)
            if subprocess.run(["mount", "--bind", folder, aside], check=False).returncode:
                raise PermissionError(folder)
            undo.callback(_unmount, aside)
            subprocess.run(["mount", "-o", "remount,bind,ro", aside], check=True)
            # Mount it in place only now: a file there may be open for writing at any moment.
            subprocess.run(["mount", "--bind", aside, folder], check=True)
            undo.callback(_unmount, folder)
        yield


@contextmanager
def small_disk(folder: Path, size: int) -> Iterator[None]:
    """Mount a disk of so many bytes on a folder; its content is lost in the end.

    Raises:
        PermissionError: Only root may mount, and perhaps not here.
    """
    command = ["mount", "-t", "tmpfs", "-o", f"size={size}", "tmpfs", str(folder)]
    if subprocess.run(command, check=False, capture_output=True).returncode:
        raise PermissionError(folder)
    try:
        yield
    finally:
        _unmount(folder)


def fill(folder: Path) -> Path:
    """Fill a folder's disk to the last byte with a file, which is returned."""
    filling = folder / "filling"
    with suppress(OSError), filling.open("wb", buffering=0) as opened:
        while opened.write(bytes(4096)):
            pass
    return filling


def _unmount(place: Path) -> None:
    subprocess.run(["umount", "--lazy", place], check=True)


@contextmanager
def locked(file: Path) -> Iterator[None]:
    """Have another process hold a transaction open, as an sqlite3 shell may."""
    with closing(sqlite3.connect(file)) as connection:
        connection.execute("PRAGMA journal_mode = WAL")
    with subprocess.Popen(
        [sys.executable, "-c", LOCKING, file], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as holder:
        assert holder.stdout is not None
        assert holder.stdout.readline() == b"\n"
        yield
        holder.communicate()


def flip(file: Path, *places: int) -> None:
    """Invert all bits of these bytes."""
    with file.open("r+b") as opened:
        for place in places:
            opened.seek(place)
            (byte,) = opened.read(1)
            opened.seek(place)
            opened.write(bytes([byte ^ 0xFF]))


def overwrite(folder: Path) -> None:
    """Overwrite every file below a folder with noise, in place and at its size."""
    for file in folder.rglob("*"):
        if file.is_file() and (size := file.stat().st_size):
            with file.open("r+b") as opened:
                opened.write(os.urandom(size))
