"""Credentials: as whom agents connect, and which the settings name for a command or a client.

Each agent has a file with the seed of its nkey, which only its owner may read.
"""

import asyncio
import os
import time
from datetime import timedelta
from pathlib import Path
from typing import NamedTuple

import msgspec
import nkeys

from local.errors import ConfigError
from local.protocol.envelope import Role
from local.settings import BusSettings
from local.tenants.directory import Entries, write_secret
from local.tenants.tokens import sign

MEMORY = "memory.nk"
"""The memory's own file, in the folder of all tenants."""
GENERATOR = "generator"
"""Answers the queries of its tenant."""
OPERATOR = "local2"
"""The agent of the commands."""
SIGNING_KEY = "signing.pem"
CONTENT_KEY = "content.key"
"""Encrypts what a tenant's ledger holds."""
JETSTREAM_KEY = "jetstream.key"
"""Encrypts what the embedded server stores, of all tenants."""
SUFFIX = ".nk"
VALID = timedelta(hours=1)
"""The lifetime of tokens that are made where the key is."""


class Credentials(msgspec.Struct, frozen=True, kw_only=True):
    """The identity of a client of a server with accounts.

    `seed`: the nkey of a user. `inbox`: the prefix of the subjects that only this user may receive.
    `token`: that of the person for whom everything is asked, unless a message has another.
    """

    seed: str
    inbox: str
    token: str | None = None


class KeyPair(NamedTuple):
    """An nkey: the secret seed, and the public key that the server knows."""

    seed: str
    public: str


def new_key_pair() -> KeyPair:
    seed = nkeys.encode_seed(os.urandom(32), nkeys.PREFIX_BYTE_USER)
    return KeyPair(seed.decode(), nkeys.from_seed(seed).public_key.decode())


def file_of(folder: Path, tenant: str, agent: str) -> Path:
    """Return where an agent's seed is stored."""
    return folder / tenant / f"{agent}{SUFFIX}"


def inbox_of(agent: str) -> str:
    """Return the prefix of the subjects that only this agent of its tenant may receive."""
    return f"_INBOX_{agent}"


def write_seed(folder: Path, tenant: str, agent: str, seed: str) -> Path:
    """Store an agent's seed; return where."""
    file = file_of(folder, tenant, agent)
    write_secret(file, f"{seed}\n")
    return file


def read_credentials(folder: Path, tenant: str, agent: str) -> Credentials | None:
    """Return an agent's credentials; None if its seed is not stored here."""
    file = file_of(folder, tenant, agent)
    return credentials_in(file) if file.exists() else None


def memory_credentials(folder: Path) -> Credentials:
    """Return the memory's own credentials; raise a ConfigError if they are missing."""
    return credentials_in(folder / MEMORY)


class AgentSummary(msgspec.Struct, frozen=True, kw_only=True):
    """An agent as it is listed; `credentials`: the file of its seed."""

    tenant: str
    agent: str
    role: Role
    inbox: str
    credentials: str


def summaries_of(folder: Path, entries: Entries, tenant: str) -> list[AgentSummary]:
    """Return all agents of a tenant."""
    return [
        AgentSummary(
            tenant=tenant,
            agent=name,
            role=agent.role,
            inbox=inbox_of(name),
            credentials=str(file_of(folder, tenant, name)),
        )
        for name, agent in entries.tenants[tenant].agents.items()
    ]


def credentials_in(file: Path) -> Credentials:
    """Return the credentials in a file, which is named after its agent.

    Raises:
        ConfigError: It cannot be read, or holds no seed.
    """
    try:
        seed = file.read_text(encoding="utf-8").strip()
        nkeys.from_seed(seed.encode())
    except (OSError, UnicodeDecodeError, ValueError, nkeys.NkeysError) as error:
        raise ConfigError(
            f"{file} holds no credentials: {type(error).__name__}.",
            remedy="`local2 tenants rotate` writes new ones.",
        ) from error
    return Credentials(seed=seed, inbox=inbox_of(file.stem))


def credentials_of(bus: BusSettings, user: str | None) -> Credentials | None:
    """Return who connects, and for whom; None without accounts.

    Raises:
        ConfigError: A file of credentials is missing, or holds none.
    """
    if bus.credentials is not None:
        credentials = credentials_in(bus.credentials)
    elif bus.tenant is not None:
        found = read_credentials(bus.accounts, bus.tenant, OPERATOR)
        if found is None:
            raise ConfigError(
                f"There are no credentials for the tenant {bus.tenant} in {bus.accounts}.",
                remedy="`local2 tenants list` shows which tenants there are.",
            )
        credentials = found
    else:
        return None
    return msgspec.structs.replace(credentials, token=bus.token or _own_token(bus, user))


class OwnTokens:
    """Makes tokens for users of the tenant whose key is here, and renews them in time."""

    def __init__(self, bus: BusSettings) -> None:
        self._bus = bus
        self._made: dict[str, tuple[str | None, float]] = {}

    async def of(self, user: str | None) -> str | None:
        """Return the user's token; None where another token names the user, or none is made."""
        if user is None or self._bus.tenant is None or self._bus.token or self._bus.credentials:
            return None
        now = time.monotonic()
        token, until = self._made.get(user, (None, now))
        if until <= now:
            self._made = {one: made for one, made in self._made.items() if made[1] > now}
            token = await asyncio.to_thread(_own_token, self._bus, user)
            self._made[user] = token, now + VALID.total_seconds() / 2
        return token


def _own_token(bus: BusSettings, user: str | None) -> str | None:
    """Return a token for the user, if the tenant's key is stored here."""
    if user is None or bus.tenant is None:
        return None
    key, entries = bus.accounts / bus.tenant / SIGNING_KEY, Entries.read(bus.accounts)
    if entries is None or not key.exists() or bus.tenant not in entries.tenants:
        return None
    private = key.read_text(encoding="utf-8")
    return sign(
        private, entries.token_key(bus.tenant).id, tenant=bus.tenant, user=user, valid_for=VALID
    )
