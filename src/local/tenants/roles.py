"""Roles: which tools and services a caller may use, and in which scopes it may write.

Every role may do what those before it may. The table is `config/roles.yaml`.
"""

from collections.abc import Sequence
from typing import get_args

from local.errors import ForbiddenError
from local.protocol.envelope import Role
from local.settings import RolesSettings

ROLES: Sequence[Role] = get_args(Role)


class Roles:
    """The table, as it is asked. A caller without a role, on a server without accounts, may all."""

    def __init__(self, table: RolesSettings) -> None:
        self._tools: dict[Role, frozenset[str]] = {}
        self._scopes: dict[Role, frozenset[str]] = {}
        tools: frozenset[str] = frozenset()
        scopes: frozenset[str] = frozenset()
        for role in ROLES:
            tools |= set(getattr(table, role).tools)
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
        """Where the role may write; None for everywhere."""
        return None if role is None else self._scopes[role]


def lesser(one: Role | None, other: Role | None) -> Role | None:
    """The role that may less, of those that are given."""
    given = [role for role in (one, other) if role is not None]
    return min(given, key=ROLES.index, default=None)
