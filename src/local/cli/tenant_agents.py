"""Agents of tenants, as the commands list them."""

from collections.abc import Sequence

import msgspec
from rich.table import Table

from local.cli.output import Output, shown
from local.protocol.envelope import Role
from local.settings import Settings
from local.tenants.credentials import file_of, inbox_of
from local.tenants.directory import Entries


class AgentSummary(msgspec.Struct, frozen=True, kw_only=True):
    """An agent as it is listed; `credentials`: the file of its seed."""

    tenant: str
    agent: str
    role: Role
    inbox: str
    credentials: str


def summaries_of(settings: Settings, entries: Entries, tenant: str) -> list[AgentSummary]:
    """Return all agents of a tenant."""
    return [
        AgentSummary(
            tenant=tenant,
            agent=name,
            role=agent.role,
            inbox=inbox_of(name),
            credentials=str(file_of(settings.bus.accounts, tenant, name)),
        )
        for name, agent in entries.tenants[tenant].agents.items()
    ]


def show(output: Output, agents: Sequence[AgentSummary]) -> None:
    """Print agents with their credentials."""
    output.data(agents)
    if agents:
        output.table(_table(agents))


def _table(summaries: Sequence[AgentSummary]) -> Table:
    table = Table()
    for column in ("Tenant", "Agent", "Role", "Inbox prefix", "Credentials"):
        table.add_column(column, overflow="fold")
    for one in summaries:
        table.add_row(*map(shown, (one.tenant, one.agent, one.role, one.inbox, one.credentials)))
    return table
