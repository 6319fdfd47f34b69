"""Join the bus: lock the data folder, start or find the server, connect, and take the lease."""

import asyncio
import hashlib
import os
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, ExitStack, asynccontextmanager, suppress
from functools import partial
from pathlib import Path
from signal import SIGTERM

import msgspec
import structlog

from local2.bus.attested import Attested
from local2.bus.connection import Connection, connect
from local2.bus.identity import new_secret
from local2.bus.lease import Holder, Lease
from local2.bus.server import EmbeddedServer, embedded_server
from local2.bus.streams import when_elected
from local2.content_key import ContentKey
from local2.errors import ConfigError, FolderLockedError, StackNotRunningError
from local2.home import folder_lock, is_alive, read_runtime
from local2.protocol.envelope import DEFAULT_TENANT
from local2.protocol.memory_tools import TOOL_NAMES
from local2.settings import Settings, is_loopback
from local2.stack.ledgers import usable_key
from local2.tenants.accounts import MEMORY, accounts
from local2.tenants.credentials import JETSTREAM_KEY, Credentials, memory_credentials
from local2.tenants.directory import Directory, Roles

USER_INFO = "$SYS.REQ.USER.INFO"
"""The subject on which the server reports who is connected."""
DEATH_PATIENCE = 10.0
"""Seconds to wait for the children of a killed stack to release the data folder."""
CLIENT_STACK_PATIENCE = 30.0
"""Seconds to wait for a stack that clients started to stop."""

log = structlog.get_logger()


class Joined(msgspec.Struct, frozen=True, kw_only=True):
    """One stack's connections to the bus, with its lease.

    `tools`: the connection over which the stack's tools answer and publish results, and the
    Listener receives the results of others. The server does not return to it what it publishes;
    otherwise the stack would read, decode and drop each of its own results. `directory`: the
    tenants; None without accounts. `server`: the embedded server; None if the configuration names
    an external one.
    """

    bus: Connection
    tools: Connection
    url: str
    lease: Lease
    directory: Directory | None
    server: EmbeddedServer | None
    credentials: Credentials | None

    @property
    def tenants(self) -> list[str]:
        """The tenants that the stack serves; without accounts, the default tenant only."""
        return list(self.directory.entries.tenants) if self.directory else [DEFAULT_TENANT]


async def join(
    resources: AsyncExitStack, settings: Settings, lock: int, shared_secret: str | None = None
) -> Joined:
    """Connect to the configured server, or start one; then take the lease.

    `shared_secret`: what only the stacks know that share the ledger; None for files.

    Raises:
        ConfigError: There are no accounts, and the server would listen beyond loopback; or the
            server does not have the configured accounts.
        BusError: The server did not start, does not answer, or has no JetStream.
        LeaseHeldError: Another stack serves the bus.
        LedgerKeyError: The content is encrypted, and its key is missing or wrong.
    """
    roles = Roles(settings.roles)
    directory = await asyncio.to_thread(Directory.open, settings.bus.accounts, roles)
    if directory is None and settings.bus.url is None and not is_loopback(settings.bus.host):
        raise ConfigError(
            f"Without accounts callers are not authenticated, and {settings.bus.host} is not "
            "loopback.",
            remedy="Create accounts with `local2 tenants init`, or set `host: 127.0.0.1` in "
            "config/bus.yaml.",
        )
    server: EmbeddedServer | None = None
    if settings.bus.url is None:

        def accounts_config() -> str:
            return accounts(directory.entries, TOOL_NAMES) if directory else ""

        key = await asyncio.to_thread(_jetstream_key, settings, directory)
        server = await resources.enter_async_context(
            embedded_server(
                settings.memory.data_dir / "nats",
                host=settings.bus.host,
                port=settings.bus.port,
                inherit=(lock,),
                accounts=accounts_config,
                key=key.derive("jetstream") if key else None,
            )
        )
    url = server.url if server else str(settings.bus.url)
    credentials = (
        await asyncio.to_thread(memory_credentials, directory.folder) if directory else None
    )
    connection = partial(
        connect,
        url,
        request_timeout=settings.bus.request_timeout,
        secret=shared_secret or new_secret(),
        credentials=credentials,
        identity=Attested(directory) if directory else None,
        by_tenant=directory is not None,
    )
    try:
        bus = await resources.enter_async_context(connection(name="local2"))
        tools = await resources.enter_async_context(connection(name="local2 tools", no_echo=True))
    except StackNotRunningError as error:
        if server is not None:
            raise
        # The remedy for clients is to start the stack, which is what failed.
        raise StackNotRunningError(
            error.message,
            remedy="Start that server, or correct `url` in config/bus.yaml: without `url`, the "
            "stack starts a server of its own.",
        ) from error
    if directory is not None:
        # A server without the accounts would let anybody be any tenant.
        answer = await bus.request(USER_INFO, b"")
        account = msgspec.json.decode(answer.data, type=_UserInfo).data.account
        if account != MEMORY:
            raise ConfigError(
                f"The NATS server at {bus.url} does not have the accounts: it connects the memory "
                f"to the account {account}, not {MEMORY}.",
                remedy="Add the output of `local2 tenants server-config` to its configuration.",
            )
    # The lease names the ledger without telling the secret.
    ledger = hashlib.blake2b(shared_secret.encode()).hexdigest() if shared_secret else ""
    holder = Holder.for_folder(settings.memory.data_dir, ledger)
    lease = Lease(bus, holder, in_memory=server is not None)
    await when_elected(bus, lease.acquire)
    resources.push_async_callback(lease.release)
    return Joined(
        bus=bus,
        tools=tools,
        url=url,
        lease=lease,
        directory=directory,
        server=server,
        credentials=credentials,
    )


@asynccontextmanager
async def lock_data_folder(data_dir: Path, *, for_clients: bool) -> AsyncIterator[int]:
    """Hold the data folder's lock; wait for children of a killed stack to exit.

    If the lock belongs to a stack that clients started, stop that stack and serve its clients,
    unless clients started this one, too.
    """
    now = asyncio.get_running_loop().time
    deadline = now() + DEATH_PATIENCE
    asked: int | None = None
    with ExitStack() as lock:
        while True:
            try:
                descriptor = lock.enter_context(folder_lock(data_dir))
                break
            except FolderLockedError as error:
                if not for_clients and error.holder != asked and _ask_to_stop(data_dir, error):
                    asked, deadline = error.holder, now() + CLIENT_STACK_PATIENCE
                if now() > deadline or (is_alive(error.holder) and error.holder != asked):
                    raise
                await asyncio.sleep(0.05)
        yield descriptor


def _ask_to_stop(data_dir: Path, error: FolderLockedError) -> bool:
    """Ask the stack that holds the lock to stop, if clients started it; return whether it was."""
    runtime = read_runtime(data_dir)
    if runtime is None or not runtime.for_clients or runtime.pid != error.holder:
        return False
    with suppress(ProcessLookupError):
        os.kill(runtime.pid, SIGTERM)
    log.info("stack_of_clients_ends", pid=runtime.pid)
    return True


class _User(msgspec.Struct, frozen=True):
    account: str = ""


class _UserInfo(msgspec.Struct, frozen=True):
    """The server's answer on USER_INFO."""

    data: _User


def _jetstream_key(settings: Settings, directory: Directory | None) -> ContentKey | None:
    """Read the key that encrypts JetStream's files, if any; without accounts, check it first."""
    if directory is None:
        return usable_key(settings.memory, DEFAULT_TENANT)
    file = directory.folder / JETSTREAM_KEY
    return ContentKey.read(file) if file.exists() else None
