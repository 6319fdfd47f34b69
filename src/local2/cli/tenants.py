"""`local2 tenants`: manage accounts of the NATS server, with their agents and keys.

The commands change the folder of accounts; a running stack applies the changes.
"""

import asyncio
from collections.abc import Sequence
from datetime import timedelta
from pathlib import Path

import click
import msgspec

from local2.cli.answers import INDENT
from local2.cli.commands import command
from local2.cli.output import Output, printable, run_async, styled
from local2.client import connect
from local2.client.tools import Toolbox
from local2.content_key import ContentKey
from local2.errors import (
    BusError,
    ForbiddenError,
    InvalidArgumentsError,
    quoted,
)
from local2.home import is_running, running_url
from local2.protocol.envelope import Role
from local2.protocol.memory_tools import TOOL_NAMES
from local2.protocol.subjects import checked_tenant_name, checked_tool_name
from local2.settings import Settings
from local2.tenants.credentials import (
    CONTENT_KEY,
    GENERATOR,
    JETSTREAM_KEY,
    MEMORY_SEED_FILE,
    OPERATOR,
    SIGNING_KEY,
    inbox_of,
    new_key_pair,
    new_token_key,
    read_credentials,
    rotate_token_key,
    seed_file,
    signed_token,
    write_seed,
)
from local2.tenants.directory import ROLES, Agent, Entries, TenantEntry, write_secret

OWN_AGENTS = {OPERATOR: Agent(key="", role="admin"), GENERATOR: Agent(key="", answers=True)}
EXAMPLE = """\
An agent connects with them, in Python for example, to the `url` in .local2/runtime.json:

    await nats.connect(url, nkeys_seed="{file}", inbox_prefix="{inbox}")"""
SERVED_WITHIN = 10.0
"""Seconds to wait until a running stack serves a new tenant."""


class AgentSummary(msgspec.Struct, frozen=True, kw_only=True):
    """An agent as `local2 tenants list` shows it; `credentials` is the path of its seed."""

    tenant: str
    agent: str
    role: Role
    inbox: str
    credentials: str


group = click.Group("tenants", no_args_is_help=True)
tenant_argument = click.argument("tenant", help="The tenant's name.")
agent_option = click.option("--agent", help="One of the tenant's agents.")


@command(group=group)
@click.option("--encrypt", is_flag=True, help="Encrypt what JetStream stores.")
def init(settings: Settings, output: Output, *, encrypt: bool) -> None:
    """Create accounts. From then on, nobody can connect without credentials."""
    folder = settings.bus.accounts
    if Entries.read(folder) is not None:
        raise InvalidArgumentsError(
            f"There are already accounts in {folder}.", remedy="`local2 tenants list` lists them."
        )
    pair = new_key_pair()
    write_secret(folder / MEMORY_SEED_FILE, f"{pair.seed}\n")
    if encrypt:
        ContentKey.create(folder / JETSTREAM_KEY)
    Entries(memory=pair.public).write(folder)
    output.data({"folder": str(folder)})
    output.text(f"Accounts are in {folder}. Add a tenant: `local2 tenants add NAME`.")
    if is_running(settings):
        output.text("The running stack does not use them yet: restart it.")


@command(group=group)
@tenant_argument
@click.option("--agent", default="agent", help="The agent's name.")
@click.option("--role", type=click.Choice(ROLES), default="writer", help="What the agent may do.")
@click.option("--encrypt", is_flag=True, help="Encrypt the memory of a new tenant.")
def add(
    settings: Settings, output: Output, *, tenant: str, agent: str, role: Role, encrypt: bool
) -> None:
    """Add a tenant, or another agent to it; print where the credentials are."""
    folder, entries = settings.bus.accounts, _entries(settings)
    checked_tool_name(agent)
    entry = entries.tenants.get(checked_tenant_name(tenant))
    wanted = {agent: Agent(key="", role=role)}
    if entry is None:
        entry = TenantEntry(tokens=[new_token_key(folder, tenant)])
        if encrypt and not (folder / tenant / CONTENT_KEY).exists():
            ContentKey.create(folder / tenant / CONTENT_KEY)
        wanted = {**OWN_AGENTS, **wanted}
    elif encrypt:
        raise InvalidArgumentsError(
            f"The tenant {tenant} already exists, and its memory cannot be encrypted later.",
            remedy="Export it, add another tenant with --encrypt, and import it there.",
        )
    elif agent in entry.agents:
        raise InvalidArgumentsError(f"The tenant {tenant} already has an agent {agent}.")
    made = {name: _with_key(folder, tenant, name, agent) for name, agent in wanted.items()}
    entry = msgspec.structs.replace(entry, agents={**entry.agents, **made})
    _write_entry(settings, entries, tenant, entry)
    _wait_until_served(settings, output, tenant, agent)
    _show_agent(settings, output, tenant, agent)
    example = EXAMPLE.format(file=seed_file(folder, tenant, agent), inbox=inbox_of(agent))
    output.text(example, as_it_is=True)


@command(group=group)
@tenant_argument
@agent_option
def remove(settings: Settings, output: Output, *, tenant: str, agent: str | None) -> None:
    """Remove a tenant, or one of its agents. The tenant's memory stays."""
    folder, entries = settings.bus.accounts, _entries(settings)
    entry = _tenant(entries, tenant)
    if agent is None:
        rest = {name: kept for name, kept in entries.tenants.items() if name != tenant}
        msgspec.structs.replace(entries, tenants=rest).write(folder)
        seeds = [seed_file(folder, tenant, name) for name in entry.agents]
        for file in (*seeds, folder / tenant / SIGNING_KEY):
            file.unlink(missing_ok=True)
        output.text(f"{tenant} is removed. Its memory stays, and is used if it is added again.")
    else:
        _agent(entry, tenant, agent)
        left = {name: kept for name, kept in entry.agents.items() if name != agent}
        _write_entry(settings, entries, tenant, msgspec.structs.replace(entry, agents=left))
        seed_file(folder, tenant, agent).unlink(missing_ok=True)
        output.text(f"The agent {agent} of {tenant} is removed.")
    output.data({"tenant": tenant, "agent": agent})


@command(group=group)
@tenant_argument
@agent_option
def rotate(settings: Settings, output: Output, *, tenant: str, agent: str | None) -> None:
    """Replace an agent's key; without an agent, the key that signs the tenant's tokens."""
    folder, entries = settings.bus.accounts, _entries(settings)
    entry = _tenant(entries, tenant)
    if agent is None:
        key = rotate_token_key(folder, tenant)
        output.data({"tenant": tenant, "key": key.id})
        output.text(f"From now on, tokens of {tenant} are signed with {key.id}.")
        return
    changed = _with_key(folder, tenant, agent, _agent(entry, tenant, agent))
    entry = msgspec.structs.replace(entry, agents={**entry.agents, agent: changed})
    _write_entry(settings, entries, tenant, entry)
    _show_agent(settings, output, tenant, agent)


@command(group=group)
@tenant_argument
@click.argument("tool", help="A tool of that tenant.")
@click.argument("others", nargs=-1, help="The tenants that may use it.")
def share(
    settings: Settings, output: Output, *, tenant: str, tool: str, others: Sequence[str]
) -> None:
    """Let other tenants use a tool; without OTHERS, stop sharing it."""
    entries = _entries(settings)
    entry = _tenant(entries, tenant)
    if tool in TOOL_NAMES:
        raise InvalidArgumentsError(
            f"{tool} is a tool of the memory, which every tenant has.",
            remedy="Share a tool that one of the tenant's own agents serves.",
        )
    for other in others:
        _tenant(entries, other)
    shares = {**entry.shares, checked_tool_name(tool): list(others)}
    shares = {name: to for name, to in shares.items() if to}
    _write_entry(settings, entries, tenant, msgspec.structs.replace(entry, shares=shares))
    output.data({"tenant": tenant, "tool": tool, "shared_with": others})
    output.text(f"{tool} of {tenant} is shared with {', '.join(others) or 'nobody'}.")


@command(group=group)
@tenant_argument
@click.option("--user", required=True, help="The user whom the token names.")
@click.option(
    "--days", type=click.FloatRange(min=0), default=1.0, help="How many days it is valid."
)
@click.option("--role", type=click.Choice(ROLES), help="Limit the token to what this role may do.")
def token(
    settings: Settings, output: Output, *, tenant: str, user: str, days: float, role: Role | None
) -> None:
    """Print a token that proves for which user an agent asks."""
    _tenant(_entries(settings), tenant)
    signed = signed_token(settings.bus.accounts, tenant, user, timedelta(days=days), role)
    output.data({"token": signed})
    output.text(signed, as_it_is=True)


@command("list", group=group)
def list_tenants(settings: Settings, output: Output) -> None:
    """List tenants and their agents."""
    folder, entries = settings.bus.accounts, _entries(settings)
    agents = [agent for name in entries.tenants for agent in _agents_of(folder, entries, name)]
    if not agents:
        output.text("There are no tenants yet: `local2 tenants add NAME`.")
    _show(output, agents)


@command("server-config", group=group)
def server_config(settings: Settings, output: Output) -> None:
    """Print the accounts for the configuration of your own NATS server."""
    from local2.tenants.accounts import accounts  # noqa: PLC0415 - no other command needs it

    text = accounts(_entries(settings), sorted(TOOL_NAMES))
    output.data({"accounts": text})
    output.text(text, as_it_is=True)


def _agents_of(folder: Path, entries: Entries, tenant: str) -> list[AgentSummary]:
    return [
        AgentSummary(
            tenant=tenant,
            agent=name,
            role=agent.role,
            inbox=inbox_of(name),
            credentials=str(seed_file(folder, tenant, name)),
        )
        for name, agent in entries.tenants[tenant].agents.items()
    ]


def _entries(settings: Settings) -> Entries:
    if (entries := Entries.read(settings.bus.accounts)) is None:
        raise InvalidArgumentsError(
            f"There are no accounts in {settings.bus.accounts}.",
            remedy="Create them with `local2 tenants init`.",
        )
    return entries


def _tenant(entries: Entries, name: str) -> TenantEntry:
    if name not in entries.tenants:
        raise InvalidArgumentsError(
            f"There is no tenant {quoted(name)}.", remedy="`local2 tenants list` lists them."
        )
    return entries.tenants[name]


def _agent(entry: TenantEntry, tenant: str, name: str) -> Agent:
    if name not in entry.agents:
        raise InvalidArgumentsError(
            f"The tenant {tenant} has no agent {quoted(name)}.",
            remedy="`local2 tenants list` lists them.",
        )
    return entry.agents[name]


def _with_key(folder: Path, tenant: str, name: str, agent: Agent) -> Agent:
    """Give an agent a new key, and store the key's seed."""
    pair = new_key_pair()
    write_seed(folder, tenant, name, pair.seed)
    return msgspec.structs.replace(agent, key=pair.public)


def _write_entry(settings: Settings, entries: Entries, tenant: str, entry: TenantEntry) -> None:
    changed = msgspec.structs.replace(entries, tenants={**entries.tenants, tenant: entry})
    changed.write(settings.bus.accounts)


def _show_agent(settings: Settings, output: Output, tenant: str, agent: str) -> None:
    agents = _agents_of(settings.bus.accounts, _entries(settings), tenant)
    _show(output, [summary for summary in agents if summary.agent == agent])


def _show(output: Output, agents: Sequence[AgentSummary]) -> None:
    output.data(agents)
    for agent in agents:
        head = f"{styled(agent.tenant, bold=True)}, {styled(agent.agent)}: {agent.role}"
        output.line(f"{head}, inbox prefix {styled(agent.inbox)}")
        output.line(f"{INDENT}{printable(agent.credentials)}")


def _wait_until_served(settings: Settings, output: Output, tenant: str, agent: str) -> None:
    """Wait until the running stack, if there is one, serves the tenant's agent."""
    if settings.bus.url is not None:
        output.text(
            "Add what `local2 tenants server-config` prints to your NATS server's configuration."
        )
    if settings.bus.url is not None or not is_running(settings):
        return
    credentials = read_credentials(settings.bus.accounts, tenant, agent)

    async def served() -> bool:
        deadline = asyncio.get_running_loop().time() + SERVED_WITHIN
        while asyncio.get_running_loop().time() < deadline:
            try:
                async with (
                    connect(running_url(settings), name="cli", credentials=credentials) as link,
                    Toolbox(link, source="cli") as tools,
                ):
                    if await tools.find("recall", within=1.0) is not None:
                        return True
            except (BusError, ForbiddenError):
                await asyncio.sleep(0.2)
        return False

    if not run_async(served()):
        output.failure(f"The running stack does not serve {tenant} yet: see its log.")
