"""The directory: the tenants, their agents with their keys, and what each role may do.

It is one file, `tenants.yaml`, which the operator's commands write and the stack reads again when
it has changed. What is secret lies beside it, a folder a tenant, and leaves the machine only in the
hands of its recipient. Every role may do what those before it may; the table of roles is
`config/roles.yaml`.
"""

import os
from collections.abc import Mapping, Sequence
from datetime import datetime
from pathlib import Path
from typing import Self, get_args

import msgspec
import yaml

from local.config_files import read_yaml_file
from local.errors import ConfigError, ForbiddenError
from local.protocol.envelope import Role
from local.protocol.subjects import checked_tenant_name
from local.settings import RolesSettings
from local.tenants.tokens import Person, TokenKey, Verifier

ROLES: Sequence[Role] = get_args(Role)
FORGET, FORGET_OWN = "forget", "forget_own"
"""The tool: erases all of a user, or a session, topic or record of the user where the role may
write."""
FILE = "tenants.yaml"


class Roles:
    """The table of roles. Without accounts callers have no role, and may do everything."""

    def __init__(self, table: RolesSettings) -> None:
        self._tools: dict[Role, frozenset[str]] = {}
        self._scopes: dict[Role, frozenset[str]] = {}
        tools: frozenset[str] = frozenset()
        scopes: frozenset[str] = frozenset()
        for role in ROLES:
            tools |= set(getattr(table, role).tools)
            tools |= {FORGET_OWN} if FORGET in tools else set()
            scopes |= set(getattr(table, role).writes)
            self._tools[role], self._scopes[role] = tools, scopes

    def check(self, role: Role | None, tool: str) -> None:
        """Raise a ForbiddenError unless the role may use the tool or service."""
        if role is None or tool in self._tools[role]:
            return
        able = [one for one in ROLES if tool in self._tools[one]]
        raise ForbiddenError(
            f"A {role} may not use {tool}.",
            remedy=f"Ask in the role {able[0]}; config/roles.yaml says who may do what."
            if able
            else "config/roles.yaml grants it to nobody.",
        )

    def scopes(self, role: Role | None) -> frozenset[str] | None:
        """Return where the role may write; None for everywhere."""
        return None if role is None else self._scopes[role]


def lesser(one: Role | None, other: Role | None) -> Role | None:
    """Return the role with the fewest rights of those given."""
    given = [role for role in (one, other) if role is not None]
    return min(given, key=ROLES.index, default=None)


class Agent(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A user of the NATS server: its public nkey, and what it may do.

    `answers`: it answers queries, and so receives them with the callers' tokens.
    """

    key: str
    role: Role = "writer"
    answers: bool = False


class TenantEntry(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One tenant, as the file lists it.

    `shares`: tools of its own, each with the tenants that may use it.
    """

    agents: dict[str, Agent] = {}
    tokens: list[TokenKey] = []
    shares: dict[str, list[str]] = {}


class Entries(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The content of the file. `memory` is the public nkey of the memory itself."""

    memory: str
    tenants: dict[str, TenantEntry] = {}

    @classmethod
    def read(cls, folder: Path) -> Self | None:
        """Read the folder's file; None if there is none.

        Raises:
            ConfigError: It cannot be read, or is not a list of tenants.
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
        """Return the key that signs a tenant's tokens now.

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
        """Replace the content of the folder's file."""
        write_secret(folder / FILE, yaml.safe_dump(msgspec.to_builtins(self), sort_keys=False))


def write_secret(path: Path, content: str) -> None:
    """Write a file that only its owner may read, completely or not at all."""
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
        """Return the name of the agent that connected with this key."""
        return self._names.get(key) if key else None

    def person_of(self, token: str, at: datetime | None = None) -> Person:
        """Return the person that a token names. Raise a ForbiddenError if it is not valid."""
        return self._verifier.person(token, at)

    def role_of(self, agent: str | None, person: Person | None) -> Role:
        """Return what agent and person both may do. An agent without a name is a writer."""
        own = self._agents[agent].role if agent else None
        return lesser(own, person.role if person else None) or "writer"


class Directory:
    """The agents that may connect, with their rights; call `replace` when the file changes."""

    def __init__(self, entries: Entries, roles: Roles) -> None:
        self.roles = roles
        self._tenants: Mapping[str, Tenant] = {}
        self.replace(entries)

    def replace(self, entries: Entries) -> None:
        """Take over the file's content."""
        self._tenants = {name: Tenant(name, entry) for name, entry in entries.tenants.items()}

    def tenant(self, name: str) -> Tenant:
        """Return the tenant of this name.

        Raises:
            ForbiddenError: There is none.
        """
        if (tenant := self._tenants.get(name)) is None:
            raise ForbiddenError(f"There is no tenant {name!r}.")
        return tenant


class Register:
    """The directory on disk, as it was last read."""

    def __init__(self, folder: Path, entries: Entries, roles: Roles) -> None:
        self.folder = folder
        self.entries = entries
        self.directory = Directory(entries, roles)
        self._written = self._changed_at()

    @classmethod
    def open(cls, folder: Path, roles: Roles) -> Self | None:
        """Read the folder's file; None if there is none, and so no accounts.

        Raises:
            ConfigError: It cannot be read.
        """
        entries = Entries.read(folder)
        return None if entries is None else cls(folder, entries, roles)

    def changed(self) -> bool:
        """Read the file again if it has changed; return whether it had.

        Raises:
            ConfigError: It can no longer be read.
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
        """Return the tools that a tenant shares, each with the tenants that may use it."""
        entry = self.entries.tenants.get(tenant)
        return entry.shares if entry else {}

    def _changed_at(self) -> int:
        file = self.folder / FILE
        return file.stat().st_mtime_ns if file.exists() else 0
