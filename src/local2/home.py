"""The home of a memory: find its folder, lock it, and find its running stack.

A home contains `.local2/`, `.chroma/` and `config/`. Every way in finds it with `home_of`, and the
user with `asking_user`, so that they all use the same memory. One stack and its children share the
lock on the data folder, because two servers or two clients of Chroma on the same files would
corrupt them without an error. By default the stack's server listens on a free port, so commands
read its address from the runtime file. That file never holds the password of an external server;
commands read it from the configuration, as the stack does.
"""

import fcntl
import getpass
import os
import stat
from collections.abc import Collection, Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path

import msgspec

from local2.atomic_file import PRIVATE_FILE, write_atomically
from local2.errors import (
    ConfigError,
    FolderLockedError,
    StackNotRunningError,
    UnwritableError,
    without_credentials,
)
from local2.settings import HOME_VARIABLE, BusSettings, Settings

MEMORY_FOLDER = ".local2"
"""Name of the folder that marks a project with a memory."""
ACCESS_BY_OTHERS = stat.S_IRWXG | stat.S_IRWXO
PRIVATE_UMASK = 0o077
"""The umask of every process that writes into the data folder, so that only its owner can read
the memories."""
PROBE_BYTES = 1024 * 1024
"""Bytes that are written to test whether a folder is writable, and its disk has space."""
SILENT_STACK = (
    "Wait a moment if it has just been started. If it still does not answer, its log says why: end "
    "that process, with SIGKILL if necessary, and start the stack again; nothing that was "
    "acknowledged is lost."
)
RUNTIME_FILE = "runtime.json"
LEDGER_FILE = "ledger.sqlite3"
CLIENTS_LOCK = "clients.lock"
"""The file, beside the runtime file, whose lock the clients of the stack share; its modification
time is the time of the last use."""


def home_of(
    explicit: Path | str | None = None, environment: Mapping[str, str] = os.environ
) -> Path:
    """The home to use, as an absolute path; it need not exist.

    It is the first of: `explicit`; the nearest folder with a memory, from the current one upwards;
    $LOCAL2_HOME; the user's data folder.

    Raises:
        ConfigError: The current folder has been deleted, or `explicit` is a file.
    """
    if explicit is not None:
        named = Path(explicit).expanduser()
        named = named if named.is_absolute() else current_folder() / named
        if named.is_file():
            raise ConfigError(f"{named} is no folder.", remedy="Name the memory's folder.")
        return named
    here = current_folder()
    for folder in (here, *here.parents):
        # A memory folder that came with a repository is accessible to others and ignored: its
        # settings could send memories anywhere.
        if _is_private(folder / MEMORY_FOLDER):
            return folder
    return own_home(environment)


def current_folder() -> Path:
    """The folder in which the process works.

    Raises:
        ConfigError: It has been deleted.
    """
    try:
        return Path.cwd()
    except FileNotFoundError as error:
        raise ConfigError(
            "The current folder has been deleted.",
            remedy="Change into another folder, for example with `cd`.",
        ) from error


def own_home(environment: Mapping[str, str] = os.environ) -> Path:
    """The user's personal home, regardless of the current folder."""
    if named := environment.get(HOME_VARIABLE):
        return Path(named).expanduser().absolute()
    data = environment.get("XDG_DATA_HOME") or "~/.local/share"
    return (Path(data).expanduser() / "local2").absolute()


def other_homes(data_dir: Path, here: Path) -> list[Path]:
    """The other homes with a memory that the user may have meant: above `here`, or his own."""
    homes = dict.fromkeys((here, *here.parents, own_home()))
    memories = {home: home / MEMORY_FOLDER for home in homes}
    return [
        home
        for home, memory in memories.items()
        if memory != data_dir.absolute() and _is_private(memory) and (memory / LEDGER_FILE).exists()
    ]


def exposed_memories(settings: Settings) -> list[Path]:
    """The memory folders above here that are not used because others can enter them."""
    above = current_folder()
    memories = (folder / MEMORY_FOLDER for folder in (above, *above.parents))
    return [
        memory
        for memory in memories
        if memory != settings.memory.data_dir.absolute()
        and (_mode_of_own(memory) or 0) & ACCESS_BY_OTHERS
    ]


def _is_private(memory: Path) -> bool:
    mode = _mode_of_own(memory)
    return mode is not None and not mode & ACCESS_BY_OTHERS


def _mode_of_own(folder: Path) -> int | None:
    """The mode of a folder of this user; None if there is no such folder."""
    try:
        found = folder.stat()
    except OSError:
        return None
    is_own = stat.S_ISDIR(found.st_mode) and found.st_uid == os.getuid()
    return found.st_mode if is_own else None


def asking_user(bus: BusSettings, named: str | None) -> str | None:
    """The user to ask as: the named one, else the one who is logged in.

    With accounts, the token names the user, and nobody is assumed. An empty name means no user.
    """
    if named is not None:
        return named or None
    has_accounts = bus.tenant is not None or bus.credentials is not None
    return None if has_accounts else user_name(None)


def user_name(configured: str | None) -> str:
    """The configured user, else the one who is logged in."""
    if configured:
        return configured
    try:
        return getpass.getuser()
    except (KeyError, OSError):  # a container may have no user names
        return "user"


def make_private(folder: Path) -> None:
    """Create a folder, and its missing parents, that only the owner may enter."""
    missing = [above for above in folder.parents if not above.exists()]
    for created in (*reversed(missing), folder):
        created.mkdir(mode=0o700, exist_ok=True)


@contextmanager
def folder_lock(folder: Path) -> Iterator[int]:
    """Lock the data folder while the context lasts; yield the lock's file descriptor.

    Child processes that inherit the descriptor also hold the lock until they exit. So the server of
    a killed stack never shares its files with a new one.

    Raises:
        FolderLockedError: Another process holds the lock; the message names it.
        UnwritableError: The folder cannot be created or written to.
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
            holder = path.read_text(encoding="utf-8").strip()  # the id of the locking process
            raise FolderLockedError(
                f"{folder.resolve()} is in use by another stack (process {holder or 'unknown'}).",
                holder=int(holder) if holder.isdigit() else None,
                remedy="`local2 chat` talks to that stack; stop it to start another one here. "
                "`local2 --home DIR up` starts one with a memory of its own.",
            ) from None
        try:
            os.ftruncate(descriptor, 0)
            os.pwrite(descriptor, str(os.getpid()).encode(), 0)
        except OSError as error:
            raise UnwritableError(folder, error) from error
        yield descriptor
    finally:
        os.close(descriptor)


def why_unwritable(folder: Path) -> UnwritableError | None:
    """Why a folder cannot be written to; None if it can."""
    import tempfile  # noqa: PLC0415 - slow to import, and hooks import this module

    try:
        with tempfile.TemporaryFile(dir=folder) as file:
            file.write(bytes(PROBE_BYTES))
            file.flush()
            os.fsync(file.fileno())
    except OSError as error:
        return UnwritableError(folder, error)
    return None


class Runtime(msgspec.Struct, frozen=True, kw_only=True):
    """The content of the runtime file: the address of the bus and the process id of the stack.

    `for_clients`: clients started the stack; it stops when a user starts one.
    """

    url: str
    pid: int
    for_clients: bool = False


@contextmanager
def runtime_file(data_dir: Path, url: str, *, for_clients: bool = False) -> Iterator[None]:
    """Write the bus's address into the data folder, and remove it when the context ends.

    Raises:
        UnwritableError: The file cannot be written.
    """
    path = data_dir / RUNTIME_FILE
    runtime = Runtime(url=without_credentials(url), pid=os.getpid(), for_clients=for_clients)
    try:
        write_atomically(path, msgspec.json.encode(runtime), mode=PRIVATE_FILE)
    except OSError as error:
        raise UnwritableError(data_dir, error) from error
    try:
        yield
    finally:
        path.unlink(missing_ok=True)


def running_url(settings: Settings) -> str:
    """The address of the running stack's bus.

    Raises:
        StackNotRunningError: No address is configured, and no stack runs on the data folder.
    """
    if settings.bus.url is not None:
        return settings.bus.url
    return _running_here(settings.memory.data_dir).url


def stack_name(pid: int) -> str:
    """The name of a stack of this machine among those that share a ledger."""
    return f"{os.uname().nodename}, process {pid}"


def require_own_stack(settings: Settings, live: Collection[str] = ()) -> None:
    """Check that the stack of this folder runs if it is one of several, of which any may answer.

    `live`: the names of those that live, if they are known.

    Raises:
        StackNotRunningError: It does not run, or it hangs.
    """
    if settings.memory.ledger is None:
        return
    name = stack_name(_running_here(settings.memory.data_dir).pid)
    if live and name not in live:
        raise StackNotRunningError(
            f"The stack on {settings.memory.data_dir.resolve()} hangs ({name}).",
            remedy=SILENT_STACK,
        )


def _running_here(data_dir: Path) -> Runtime:
    runtime = read_runtime(data_dir)
    if runtime is None or not is_alive(runtime.pid):
        raise StackNotRunningError(
            f"No stack is running on {data_dir.resolve()}.",
            remedy="Start one with `local2 up`, in this folder or with the same `--home`.",
        )
    return runtime


def read_runtime(data_dir: Path) -> Runtime | None:
    """Read the runtime file; return None if it is missing or unreadable."""
    with suppress(OSError, msgspec.MsgspecError):
        return msgspec.json.decode((data_dir / RUNTIME_FILE).read_bytes(), type=Runtime)
    return None


def is_running(settings: Settings) -> bool:
    """Whether `running_url` returns an address."""
    try:
        running_url(settings)
    except StackNotRunningError:
        return False
    return True


def is_alive(pid: int | None) -> bool:
    """Whether the process exists, also if another user owns it."""
    if pid is None:
        return False
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    return True
