"""The credentials with which agents, commands and clients connect.

Each agent has a file with the seed of its nkey, which only the file's owner may read. Without
accounts, which most commands have, no library for keys and tokens is imported.
"""

# ruff: noqa: PLC0415

import asyncio
import os
import time
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import msgspec

from local2.errors import ConfigError
from local2.protocol.envelope import new_id
from local2.settings import BusSettings

if TYPE_CHECKING:
    from local2.protocol.envelope import Role
    from local2.tenants.tokens import TokenKey

MEMORY_SEED_FILE = "memory.nk"
"""The file with the memory's own seed, in the accounts folder."""
GENERATOR = "generator"
"""The agent that answers the queries of its tenant."""
OPERATOR = "local2"
"""The agent that the commands use."""
SIGNING_KEY = "signing.pem"
"""The file with a tenant's private key for signing tokens."""
CONTENT_KEY = "content.key"
"""The file with the key that encrypts a tenant's ledger."""
JETSTREAM_KEY = "jetstream.key"
"""The file with the key that encrypts the embedded server's streams, for all tenants."""
SEED_SUFFIX = ".nk"
MAX_TOKEN_KEYS = 2
"""Maximum number of keys for a tenant's tokens, so that tokens signed with the previous key stay
valid until they expire."""
TOKEN_LIFETIME = timedelta(hours=1)
"""The lifetime of tokens that clients sign themselves, where the tenant's key is stored."""


class Credentials(msgspec.Struct, frozen=True, kw_only=True):
    """The identity of a client of a server with accounts.

    `seed`: the seed of its nkey. `inbox`: the prefix of the subjects that only this client may
    receive. `token`: the token of the person it acts for, unless a message carries another one.
    """

    seed: str
    inbox: str
    token: str | None = None


class KeyPair(NamedTuple):
    """An nkey: the secret seed, and the public key that the server knows."""

    seed: str
    public: str


def new_key_pair() -> KeyPair:
    import nkeys

    seed = nkeys.encode_seed(os.urandom(32), nkeys.PREFIX_BYTE_USER)
    return KeyPair(seed.decode(), nkeys.from_seed(seed).public_key.decode())


def seed_file(folder: Path, tenant: str, agent: str) -> Path:
    """The path of an agent's seed."""
    return folder / tenant / f"{agent}{SEED_SUFFIX}"


def inbox_of(agent: str) -> str:
    """The prefix of an agent's inboxes, which no other agent may receive."""
    return f"_INBOX_{agent}"


def write_seed(folder: Path, tenant: str, agent: str, seed: str) -> Path:
    """Store an agent's seed; return the path."""
    from local2.tenants.directory import write_secret

    file = seed_file(folder, tenant, agent)
    write_secret(file, f"{seed}\n")
    return file


def new_token_key(folder: Path, tenant: str) -> "TokenKey":
    """Make the key that signs a new tenant's tokens, and store its private part."""
    from local2.tenants.directory import write_secret
    from local2.tenants.tokens import new_signing_key

    private, public = new_signing_key(new_id())
    write_secret(folder / tenant / SIGNING_KEY, private)
    return public


def rotate_token_key(folder: Path, tenant: str) -> "TokenKey":
    """Let another key sign a tenant's tokens; those of the previous one stay valid.

    Raises:
        ConfigError: There are no accounts, or the tenant was removed.
    """
    from local2.tenants.directory import Entries, write_secret
    from local2.tenants.tokens import new_signing_key

    entries = Entries.read(folder)
    if entries is None or tenant not in entries.tenants:
        raise ConfigError(f"There is no tenant {tenant} in {folder}.")
    entry = entries.tenants[tenant]
    private, key = new_signing_key(new_id())
    tokens = [*entry.tokens[-(MAX_TOKEN_KEYS - 1) :], key]
    changed = msgspec.structs.replace(entry, tokens=tokens)
    tenants = {**entries.tenants, tenant: changed}
    # In this order: whatever signs meanwhile, or after a kill, signs with a key that is known.
    msgspec.structs.replace(entries, tenants=tenants).write(folder)
    write_secret(folder / tenant / SIGNING_KEY, private)
    return key


def signed_token(
    folder: Path, tenant: str, user: str, valid_for: timedelta, role: "Role | None" = None
) -> str:
    """A token of a tenant for a person, signed with the key that is stored here.

    Raises:
        ConfigError: It is not stored here, or is not one of the tenant's keys.
    """
    from local2.tenants.directory import Entries
    from local2.tenants.tokens import public_of, sign

    file = folder / tenant / SIGNING_KEY
    if file.exists():
        private = file.read_text(encoding="utf-8")  # before the keys, among which it then is
        public, entries = public_of(private), Entries.read(folder)
        for key in entries.tenants[tenant].tokens if entries and tenant in entries.tenants else ():
            if key.key.strip() == public.strip():
                return sign(
                    private, key.id, tenant=tenant, user=user, valid_for=valid_for, role=role
                )
    raise ConfigError(
        f"{tenant} has no key for tokens.",
        remedy=f"Create one with `local2 tenants rotate {tenant}`.",
    )


def read_credentials(folder: Path, tenant: str, agent: str) -> Credentials | None:
    """An agent's credentials; None if its seed is not stored here."""
    file = seed_file(folder, tenant, agent)
    return credentials_in(file) if file.exists() else None


def memory_credentials(folder: Path) -> Credentials:
    """The memory's own credentials; raises ConfigError if they are missing."""
    return credentials_in(folder / MEMORY_SEED_FILE)


def credentials_in(file: Path) -> Credentials:
    """The credentials in a file, which is named after its agent.

    Raises:
        ConfigError: The file cannot be read, or contains no seed.
    """
    import nkeys

    try:
        seed = file.read_text(encoding="utf-8").strip()
        nkeys.from_seed(seed.encode())
    except FileNotFoundError as error:
        raise ConfigError(
            f"There is no file {file}.",
            remedy="`local2 tenants list` shows each agent's file; `add` makes one.",
        ) from error
    except (OSError, UnicodeDecodeError, ValueError, nkeys.NkeysError) as error:
        raise ConfigError(
            f"{file} contains no valid credentials: {type(error).__name__}.",
            remedy="`local2 tenants rotate` writes new ones.",
        ) from error
    return Credentials(seed=seed, inbox=inbox_of(file.stem))


def has_accounts(bus: BusSettings) -> bool:
    """Whether the stack of this folder has accounts.

    Raises:
        ConfigError: Their file cannot be read.
    """
    from local2.tenants.directory import Entries

    return Entries.read(bus.accounts) is not None


def credentials_of(bus: BusSettings, user: str | None) -> Credentials | None:
    """The configured credentials, with a token for the user; None without accounts.

    Raises:
        ConfigError: A credentials file is missing or invalid.
    """
    if bus.credentials is not None:
        credentials = credentials_in(bus.credentials)
    elif bus.tenant is not None:
        found = read_credentials(bus.accounts, bus.tenant, OPERATOR)
        if found is None:
            raise ConfigError(
                f"There are no credentials for the tenant {bus.tenant} in {bus.accounts}.",
                remedy="`local2 tenants list` shows the tenants.",
            )
        credentials = found
    else:
        return None
    return msgspec.structs.replace(credentials, token=bus.token or _own_token(bus, user))


class OwnTokens:
    """Signs tokens for users if the tenant's key is stored here, and renews them in time."""

    def __init__(self, bus: BusSettings) -> None:
        self._bus = bus
        self._made: dict[str, tuple[str | None, float]] = {}

    async def token_for(self, user: str | None) -> str | None:
        """A token for the user; None if one is configured, or none can be signed."""
        if user is None or self._bus.tenant is None or self._bus.token or self._bus.credentials:
            return None
        now = time.monotonic()
        token, until = self._made.get(user, (None, now))
        if until <= now:
            self._made = {owner: made for owner, made in self._made.items() if made[1] > now}
            token = await asyncio.to_thread(_own_token, self._bus, user)
            self._made[user] = token, now + TOKEN_LIFETIME.total_seconds() / 2
        return token


def _own_token(bus: BusSettings, user: str | None) -> str | None:
    """A new token for the user, if the tenant's key is stored here."""
    if user is None or bus.tenant is None:
        return None
    if not (bus.accounts / bus.tenant / SIGNING_KEY).exists():
        return None
    return signed_token(bus.accounts, bus.tenant, user, TOKEN_LIFETIME)
