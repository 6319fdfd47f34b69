"""Credentials: a file an agent, with the seed of its nkey, which only its owner may read."""

import os
from pathlib import Path
from typing import NamedTuple

import msgspec
import nkeys

from local.errors import ConfigError
from local.tenants.directory import write_secret

MEMORY = "memory.nk"
"""The memory's own file, in the folder of all tenants."""
GENERATOR = "generator"
"""Answers the queries of its tenant."""
OPERATOR = "local2"
"""As whom the commands ask."""
SIGNING_KEY = "signing.pem"
CONTENT_KEY = "content.key"
"""Encrypts what a tenant's ledger holds."""
JETSTREAM_KEY = "jetstream.key"
"""Encrypts what the embedded server stores, of all tenants."""
SUFFIX = ".nk"


class Credentials(msgspec.Struct, frozen=True, kw_only=True):
    """Who connects to a server with accounts.

    `seed`: the nkey of a user. `inbox`: the prefix of the subjects that only this user may hear.
    `token`: of the person for whom everything is asked, unless a message has another.
    """

    seed: str
    inbox: str
    token: str | None = None


class KeyPair(NamedTuple):
    """An nkey: the secret seed, and the public key that the server is told."""

    seed: str
    public: str


def new_key_pair() -> KeyPair:
    seed = nkeys.encode_seed(os.urandom(32), nkeys.PREFIX_BYTE_USER)
    return KeyPair(seed.decode(), nkeys.from_seed(seed).public_key.decode())


def file_of(folder: Path, tenant: str, agent: str) -> Path:
    """Where an agent's seed is stored."""
    return folder / tenant / f"{agent}{SUFFIX}"


def inbox_of(agent: str) -> str:
    """The prefix of the subjects that only this agent of its tenant may hear."""
    return f"_INBOX_{agent}"


def write_seed(folder: Path, tenant: str, agent: str, seed: str) -> Path:
    """Store an agent's seed; return where."""
    file = file_of(folder, tenant, agent)
    write_secret(file, f"{seed}\n")
    return file


def read_credentials(folder: Path, tenant: str, agent: str) -> Credentials | None:
    """An agent's credentials; None if its seed is not stored here."""
    file = file_of(folder, tenant, agent)
    return credentials_in(file) if file.exists() else None


def memory_credentials(folder: Path) -> Credentials:
    """The memory's own. Raises a ConfigError if they are not there."""
    return credentials_in(folder / MEMORY)


def credentials_in(file: Path) -> Credentials:
    """The credentials in a file, which is named after its agent.

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
