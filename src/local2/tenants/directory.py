"""The directory of tenants, their agents and keys, and the permissions of roles.

The directory is the file `tenants.yaml`. The operator's commands write it, and the stack reloads it
when it changes. Secrets are stored beside it, in a folder per tenant, and are only given to their
recipients. The permissions are in `config/roles.yaml`; each role also has those of the roles before
it.
"""

from collections.abc import Mapping, Sequence
from datetime import datetime
from pathlib import Path
from typing import Self, get_args

import msgspec
import yaml

from local2.atomic_file import PRIVATE_FILE, write_atomically
from local2.config_files import read_yaml_file
from local2.errors import ConfigError, ForbiddenError
from local2.protocol.envelope import Role
from local2.protocol.memory_tools import TOOLS
from local2.protocol.services import ACTIONS
from local2.protocol.subjects import checked_tenant_name
from local2.settings import RoleSettings, RolesSettings
from local2.tenants.tokens import Person, TokenKey, Verifier

ROLES: Sequence[Role] = get_args(Role)
FORGET, FORGET_OWN = "forget", "forget_own"
"""Actions of the tool `forget`: to erase anything of a user, or only a session, topic or record
within the scopes that the role may write."""
TENANTS_FILE = "tenants.yaml"

OTHER_ACTIONS: dict[str, Role] = {**ACTIONS, FORGET_OWN: "writer"}
"""The least role that may do each action that is not a tool's name, by default."""


def default_actions(role: Role) -> list[str]:
    """The actions that are for this role by default, and not for lesser ones."""
    tools = [tool.name for tool in TOOLS if tool.role == role]
    return [*tools, *(action for action, least in OTHER_ACTIONS.items() if least == role)]


class Roles:
    """The permissions of roles. Without accounts, callers have no role and may do everything."""

    def __init__(self, table: RolesSettings) -> None:
        self._tools: dict[Role, frozenset[str]] = {}
        self._scopes: dict[Role, frozenset[str]] = {}
        tools: frozenset[str] = frozenset()
        scopes: frozenset[str] = frozenset()
        for role in ROLES:
            own: RoleSettings = getattr(table, role)
            tools |= set(default_actions(role) if own.tools is None else own.tools)
            tools |= {FORGET_OWN} if FORGET in tools else set()
            scopes |= set(own.writes)
            self._tools[role], self._scopes[role] = tools, scopes

    def check(self, role: Role | None, tool: str) -> None:
        """Raise ForbiddenError unless the role may use the tool or service."""
        if role is None or tool in self._tools[role]:
            return
        permitted = [other for other in ROLES if tool in self._tools[other]]
        raise ForbiddenError(
            f"A {role} may not use {tool}.",
            remedy=f"It needs the role {permitted[0]}; config/roles.yaml defines the roles."
            if permitted
            else "config/roles.yaml grants it to no role.",
        )

    def actions(self, role: Role | None) -> frozenset[str] | None:
        """The tools and services that the role may use; None means all."""
        return None if role is None else self._tools[role]

    def scopes(self, role: Role | None) -> frozenset[str] | None:
        """The scopes that the role may write to; None means all."""
        return None if role is None else self._scopes[role]


class Agent(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """An agent: its public nkey and its role.

    `answers`: it answers queries, and therefore receives them with the callers' tokens.
    """

    key: str
    role: Role = "writer"
    answers: bool = False


class TenantEntry(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One tenant in the file.

    `shares`: the tools that it shares, each with the tenants that may use it.
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
        """Read the folder's file; return None if there is none.

        Raises:
            ConfigError: The file cannot be read, or is invalid.
        """
        path = folder / TENANTS_FILE
        try:
            entries = msgspec.convert(read_yaml_file(path), cls)
        except FileNotFoundError:
            return None
        except (msgspec.ValidationError, UnicodeEncodeError) as error:
            raise ConfigError(f"Cannot read {path}: {error}") from error
        for name in entries.tenants:
            checked_tenant_name(name)
        return entries

    def write(self, folder: Path) -> None:
        """Replace the content of the folder's file."""
        write_secret(
            folder / TENANTS_FILE, yaml.safe_dump(msgspec.to_builtins(self), sort_keys=False)
        )


def write_secret(path: Path, content: str) -> None:
    """Write a file atomically that only its owner may read."""
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    write_atomically(path, content.encode(), mode=PRIVATE_FILE)


class Tenant:
    """One tenant: finds the agent, the person and the role of a message's sender."""

    def __init__(self, name: str, entry: TenantEntry) -> None:
        self.name = name
        self._names_by_key = {agent.key: name for name, agent in entry.agents.items()}
        self._agents = entry.agents
        self._verifier = Verifier(name, entry.tokens)

    def agent_of(self, key: str | None) -> str | None:
        """The name of the agent that connected with this key."""
        return self._names_by_key.get(key) if key else None

    def person_of(self, token: str, at: datetime | None = None) -> Person:
        """The person that a token names; raises ForbiddenError if it is invalid."""
        return self._verifier.person(token, at)

    def role_of(self, agent: str | None, person: Person | None) -> Role:
        """The lesser role of the agent and the person; by default, `writer`."""
        roles = [self._agents[agent].role] if agent else []
        roles += [person.role] if person and person.role else []
        return min(roles, key=ROLES.index, default="writer")


class Directory:
    """The tenants and their roles, as the directory's file named them when it was last read."""

    def __init__(self, folder: Path, entries: Entries, roles: Roles, modified_at: int) -> None:
        self.folder = folder
        self.roles = roles
        self._modified_at = modified_at
        self._replace(entries)

    def _replace(self, entries: Entries) -> None:
        self.entries = entries
        self._tenants = {name: Tenant(name, entry) for name, entry in entries.tenants.items()}

    @classmethod
    def open(cls, folder: Path, roles: Roles) -> Self | None:
        """Read the folder's file; return None if there is none, and therefore no accounts.

        Raises:
            ConfigError: The file cannot be read.
        """
        modified_at = _modification_time(folder)  # a change from now on is read later
        entries = Entries.read(folder)
        return None if entries is None else cls(folder, entries, roles, modified_at)

    def reload_if_changed(self) -> bool:
        """Reload the file if it has changed; return whether it had.

        Raises:
            ConfigError: The file can no longer be read.
        """
        if (modified_at := _modification_time(self.folder)) == self._modified_at:
            return False
        self._modified_at = modified_at
        if (entries := Entries.read(self.folder)) is None:
            raise ConfigError(
                f"{self.folder / TENANTS_FILE} is missing; the tenants stay as they were."
            )
        self._replace(entries)
        return True

    def tenant(self, name: str) -> Tenant:
        """The tenant with this name.

        Raises:
            ForbiddenError: There is no such tenant.
        """
        if (tenant := self._tenants.get(name)) is None:
            raise ForbiddenError(f"There is no tenant {name!r}.")
        return tenant

    def shares(self, tenant: str) -> Mapping[str, list[str]]:
        """The tools that a tenant shares, each with the tenants that may use it."""
        entry = self.entries.tenants.get(tenant)
        return entry.shares if entry else {}


def _modification_time(folder: Path) -> int:
    file = folder / TENANTS_FILE
    return file.stat().st_mtime_ns if file.exists() else 0
