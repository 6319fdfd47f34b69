"""The home of a memory: which folder it is, who holds its lock, and how its stack is found.

A home holds `.local2/`, `.chroma/` and `config/`, as the current folder does for commands. One
stack and its children hold the lock on its data folder together: two servers or two clients of
Chroma on the same files would corrupt them without an error. The stack's server chooses a free
port by default, so other commands read its address from the runtime file. The password of a
server of one's own is not in it: commands take that from where the stack took it.
"""

import fcntl
import getpass
import os
import stat
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path

import msgspec

from local.errors import (
    FolderLockedError,
    StackNotRunningError,
    UnwritableError,
    without_credentials,
)
from local.settings import HOME_VARIABLE, Settings

MARK = ".local2"
"""The folder that marks a project with a memory."""
OTHERS = stat.S_IRWXG | stat.S_IRWXO
PRIVATE = 0o077
"""The umask of all that writes into the data folder: nobody else reads the memories."""
ROOM = 1024 * 1024
"""Bytes that must be free on the disk for a folder to count as writable."""
RUNTIME_FILE = "runtime.json"
USED = "clients.lock"
"""Beside it: the file whose lock the users of the stack share, and whose time is that of the last
use."""


def home_of(
    explicit: Path | str | None = None, environment: Mapping[str, str] = os.environ
) -> Path:
    """Return the folder whose memory is meant, as an absolute path; it need not exist.

    That is `explicit`; else the nearest folder upwards from the current one that has a memory;
    else $LOCAL2_HOME; else the user's folder for data.
    """
    if explicit is not None:
        return Path(explicit).expanduser().absolute()
    if (project := _project(Path.cwd())) is not None:
        return project
    return own_home(environment)


def own_home(environment: Mapping[str, str] = os.environ) -> Path:
    """Return the user's own home, whatever the current folder is."""
    if named := environment.get(HOME_VARIABLE):
        return Path(named).expanduser().absolute()
    data = environment.get("XDG_DATA_HOME") or "~/.local/share"
    return (Path(data).expanduser() / "local2").absolute()


def _project(folder: Path) -> Path | None:
    """Return the nearest folder whose memory a stack of this user created: others cannot enter it.

    A folder that came with a repository is open to others; its settings could send memories
    anywhere.
    """
    return next((each for each in (folder, *folder.parents) if _is_own(each / MARK)), None)


def _is_own(memory: Path) -> bool:
    try:
        found = memory.stat()
    except OSError:
        return False
    mode = found.st_mode
    return stat.S_ISDIR(mode) and found.st_uid == os.getuid() and not mode & OTHERS


def person_of(configured: str | None) -> str:
    """Return the user for commands that a person starts: the configured one, else the login."""
    if configured:
        return configured
    try:
        return getpass.getuser()
    except (KeyError, OSError):  # a container may have no user names
        return "user"


def make_private(folder: Path) -> None:
    """Create a folder that only its owner may enter, and each missing folder above it."""
    missing = [above for above in folder.parents if not above.exists()]
    for one in (*reversed(missing), folder):
        one.mkdir(mode=0o700, exist_ok=True)


@contextmanager
def folder_lock(folder: Path) -> Iterator[int]:
    """Lock the data folder for as long as the context lasts; yields the lock's file descriptor.

    Child processes that inherit the descriptor hold the lock until they are gone, too. So the
    server of a killed stack never shares its files with a new one.

    Raises:
        FolderLockedError: Another process holds the folder; the message names it.
        UnwritableError: The folder cannot be made, or cannot be written to.
    """
    path = folder / "lock"
    try:
        make_private(folder)
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    except OSError as error:
        raise UnwritableError(folder, error) from error
    try:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise _locked(folder, path.read_text(encoding="utf-8").strip()) from None
        try:
            os.ftruncate(descriptor, 0)
            os.pwrite(descriptor, str(os.getpid()).encode(), 0)
        except OSError as error:
            raise UnwritableError(folder, error) from error
        yield descriptor
    finally:
        os.close(descriptor)


def _locked(folder: Path, holder: str) -> FolderLockedError:
    """Return the error that names the process with the lock, as that process described itself."""
    return FolderLockedError(
        f"{folder.resolve()} is in use by another stack (process {holder or 'unknown'}).",
        holder=int(holder) if holder.isdigit() else None,
        remedy="Use that one or stop it; a second stack needs LOCAL2_MEMORY__DATA_DIR and "
        "LOCAL2_MEMORY__CHROMA_PATH of its own.",
    )


def why_unwritable(folder: Path) -> UnwritableError | None:
    """Return why a folder cannot be written to; None if it can."""
    import tempfile  # noqa: PLC0415 - it takes long to import, and hooks need this module

    try:
        with tempfile.TemporaryFile(dir=folder) as file:
            file.write(bytes(ROOM))
            file.flush()
            os.fsync(file.fileno())
    except OSError as error:
        return UnwritableError(folder, error)
    return None


class Runtime(msgspec.Struct, frozen=True, kw_only=True):
    """The content of the file: address of the bus, and process id of the stack.

    `for_clients`: clients started it, and it gives way to one that somebody starts.
    """

    url: str
    pid: int
    for_clients: bool = False


@contextmanager
def runtime_file(data_dir: Path, url: str, *, for_clients: bool = False) -> Iterator[None]:
    """Write the bus's address into the data folder, and remove it when the context ends.

    Raises:
        UnwritableError: It cannot be written there.
    """
    path = data_dir / RUNTIME_FILE
    temporary = path.with_suffix(".tmp")
    try:
        temporary.touch(mode=0o600)
        temporary.write_bytes(
            msgspec.json.encode(
                Runtime(url=without_credentials(url), pid=os.getpid(), for_clients=for_clients)
            )
        )
        temporary.replace(path)
    except OSError as error:
        raise UnwritableError(data_dir, error) from error
    try:
        yield
    finally:
        path.unlink(missing_ok=True)


def running_url(settings: Settings) -> str:
    """Return the address of the running stack's bus.

    Raises:
        StackNotRunningError: No address is configured, and no stack runs on the data folder.
    """
    if settings.bus.url is not None:
        return settings.bus.url
    runtime = read_runtime(settings.memory.data_dir)
    if runtime is None or not is_alive(runtime.pid):
        raise StackNotRunningError(
            f"No stack is running on {settings.memory.data_dir.resolve()}.",
            remedy="Start one with `local2 up`, in this folder.",
        )
    return runtime.url


def read_runtime(data_dir: Path) -> Runtime | None:
    """Read the runtime file; None if there is none, or it cannot be read."""
    with suppress(OSError, msgspec.MsgspecError):
        return msgspec.json.decode((data_dir / RUNTIME_FILE).read_bytes(), type=Runtime)
    return None


def is_running(settings: Settings) -> bool:
    """Return whether `running_url` finds an address."""
    try:
        running_url(settings)
    except StackNotRunningError:
        return False
    return True


def is_alive(pid: int | None) -> bool:
    """Return whether the process exists, whoever owns it."""
    if pid is None:
        return False
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    return True
