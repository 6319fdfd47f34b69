"""The directory: which tenants there are, their agents with their keys and roles.

It is one file, `tenants.yaml`, which the operator's commands write and the stack reads again when
it has changed. What is secret lies beside it, a folder a tenant, and leaves the machine only in the
hands of whom it is for.
"""

import os
from collections.abc import Mapping
from datetime import datetime
from pathlib import Path
from typing import Self

import msgspec
import yaml

from local.errors import ConfigError, ForbiddenError
from local.protocol.envelope import Role
from local.protocol.subjects import checked_tenant_name
from local.tenants.roles import Roles, lesser
from local.tenants.tokens import Person, TokenKey, Verifier
from local.yaml_files import read_yaml_file

FILE = "tenants.yaml"


class Agent(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A user of the NATS server: its public nkey, and what it may do.

    `answers`: it answers queries, and so hears them with the tokens of those who ask.
    """

    key: str
    role: Role = "writer"
    answers: bool = False


class TenantEntry(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One tenant, as the file has it.

    `shares`: tools of its own, each with the tenants that may use it.
    """

    agents: dict[str, Agent] = {}
    tokens: list[TokenKey] = []
    shares: dict[str, list[str]] = {}


class Entries(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The file. `memory` is the public nkey of the memory itself."""

    memory: str
    tenants: dict[str, TenantEntry] = {}

    @classmethod
    def read(cls, folder: Path) -> Self | None:
        """What the folder's file says; None if there is none.

        Raises:
            ConfigError: It cannot be read, or says something else than tenants.
        """
        path = folder / FILE
        try:
            entries = msgspec.convert(read_yaml_file(path), cls)
        except FileNotFoundError:
            return None
        except (msgspec.ValidationError, UnicodeEncodeError) as error:
            raise ConfigError(f"Cannot read {path}: {error}") from error
        for name in entries.tenants:
            checked_tenant_name(name)
        return entries

    def token_key(self, tenant: str) -> TokenKey:
        """The key that a tenant's tokens are signed with now.

        Raises:
            ConfigError: It has none.
        """
        if tokens := self.tenants[tenant].tokens:
            return tokens[-1]
        raise ConfigError(
            f"{tenant} has no key for tokens.",
            remedy=f"Make one: `local2 tenants rotate {tenant}`.",
        )

    def write(self, folder: Path) -> None:
        """Put it in the place of what the folder's file says."""
        write_secret(folder / FILE, yaml.safe_dump(msgspec.to_builtins(self), sort_keys=False))


def write_secret(path: Path, content: str) -> None:
    """Write a file, all of it or nothing, that only its owner may read."""
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    temporary = path.with_suffix(f"{path.suffix}.new")
    temporary.unlink(missing_ok=True)
    with os.fdopen(os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w") as file:
        file.write(content)
    temporary.replace(path)


class Tenant:
    """One tenant, as messages are looked up in it."""

    def __init__(self, name: str, entry: TenantEntry) -> None:
        self.name = name
        self._names = {agent.key: name for name, agent in entry.agents.items()}
        self._agents = entry.agents
        self._verifier = Verifier(name, entry.tokens)

    def agent_of(self, key: str | None) -> str | None:
        """The name of the agent that connected with this key."""
        return self._names.get(key) if key else None

    def person_of(self, token: str, at: datetime | None = None) -> Person:
        """For whom the token says that is asked. Raises a ForbiddenError if it is not valid."""
        return self._verifier.person(token, at)

    def role_of(self, agent: str | None, person: Person | None) -> Role:
        """What both of them may do. An agent that the server does not name is a writer."""
        own = self._agents[agent].role if agent else None
        return lesser(own, person.role if person else None) or "writer"


class Directory:
    """Who may speak, and what they may do; `replace` when the file has changed."""

    def __init__(self, entries: Entries, roles: Roles) -> None:
        self.roles = roles
        self._tenants: Mapping[str, Tenant] = {}
        self.replace(entries)

    def replace(self, entries: Entries) -> None:
        """Take what the file says now."""
        self._tenants = {name: Tenant(name, entry) for name, entry in entries.tenants.items()}

    def tenant(self, name: str) -> Tenant:
        """The tenant of this name.

        Raises:
            ForbiddenError: There is none.
        """
        if (tenant := self._tenants.get(name)) is None:
            raise ForbiddenError(f"There is no tenant {name!r}.")
        return tenant


class Register:
    """The directory on disk, as it was read last."""

    def __init__(self, folder: Path, entries: Entries, roles: Roles) -> None:
        self.folder = folder
        self.entries = entries
        self.directory = Directory(entries, roles)
        self._written = self._changed_at()

    @classmethod
    def open(cls, folder: Path, roles: Roles) -> Self | None:
        """Read the folder's file; None if there is none, and so are no accounts.

        Raises:
            ConfigError: It cannot be read.
        """
        entries = Entries.read(folder)
        return None if entries is None else cls(folder, entries, roles)

    def changed(self) -> bool:
        """Read the file again if it has changed; whether it had.

        Raises:
            ConfigError: It cannot be read any more.
        """
        if (written := self._changed_at()) == self._written:
            return False
        self._written = written
        if (entries := Entries.read(self.folder)) is None:
            raise ConfigError(f"{self.folder / FILE} is gone; nothing changes until it is back.")
        self.entries = entries
        self.directory.replace(entries)
        return True

    def shares(self, tenant: str) -> Mapping[str, list[str]]:
        """The tools that a tenant shares, each with whom."""
        entry = self.entries.tenants.get(tenant)
        return entry.shares if entry else {}

    def _changed_at(self) -> int:
        file = self.folder / FILE
        return file.stat().st_mtime_ns if file.exists() else 0
