"""Commands that give others access to the memory: MCP, hooks of coding agents, and accounts."""

from pathlib import Path
from typing import Any, get_args

import click
import msgspec

from local2.cli.commands import PATH, json_option, yes_option
from local2.cli.output import GlobalOptions, command
from local2.hooks.clients.client import Scope
from local2.protocol.envelope import Role

servers = click.Group()


@servers.command()
@click.option("--http", is_flag=True, help="Serve over HTTP on this machine instead, with a token.")
@click.option(
    "--port",
    type=click.IntRange(min=0, max=65_535),
    help="The port for --http; 0 means any free port.",
)
@click.option(
    "--profile", multiple=True, help="default, full, read-only, or the name of a tool. Repeatable."
)
@click.option("--user", help="Whose memory. Default: the user who is logged in.")
@click.option("--agent", help="The agent's name. Default: the client's own.")
@click.option("--session", help="The session. Default: a new session.")
@click.option(
    "--home", type=PATH, help="The memory's folder. Default: this project's, or else the user's."
)
@click.pass_context
def mcp(  # noqa: PLR0913 - one parameter an option
    context: click.Context,
    *,
    http: bool,
    port: int | None,
    profile: tuple[str, ...],
    user: str | None,
    agent: str | None,
    session: str | None,
    home: Path | None,
) -> None:
    """Serve the memory over MCP to the client that starts this command, on stdin and stdout."""
    from local2.mcp.opening import answer_initialize

    opening = None if http else answer_initialize()
    chosen: GlobalOptions = context.obj
    with command(chosen._replace(home=home or chosen.home)) as (settings, output):
        from local2.cli.reach import serve_http, serve_stdio

        options = {"user": user, "agent": agent, "session": session, "port": port}
        given: dict[str, Any] = {k: v for k, v in options.items() if v is not None}
        given |= {"profile": profile} if profile else {}
        own = msgspec.structs.replace(settings.mcp, **given)
        chosen_settings = msgspec.structs.replace(settings, mcp=own)
        if opening is None:
            serve_http(chosen_settings, output)
        else:
            serve_stdio(chosen_settings, opening)


hooks = click.Group(
    "hooks",
    help="Hooks of coding agents, which store and recall memories automatically.",
    no_args_is_help=True,
)
hook_commands = click.Group()
"""The command that the hooks call."""


CLIENTS = click.Choice(("claude-code", "codex", "cursor"))
where_option = click.option(
    "--scope",
    type=click.Choice(get_args(Scope)),
    default="user",
    help="Use the settings of the user or of the current folder.",
)


@hooks.command()
@click.argument("client", type=CLIENTS)
@where_option
@click.option(
    "--home",
    type=PATH,
    help="The memory's folder. Default: the current project's, or else the user's.",
)
@click.option("--user", help="Whose memory. Default: the user who is logged in.")
@yes_option
@json_option
@click.pass_context
def install(  # noqa: PLR0913 - one parameter an option
    context: click.Context,
    *,
    client: str,
    scope: Scope,
    home: Path | None,
    user: str | None,
    yes: bool,
    json: bool,
) -> None:
    """Add the hooks to a client's settings, after showing the change and asking."""
    with command(context.obj, json=json) as (_, output):
        from local2.cli.reach import install as run

        named = home or context.obj.home
        where = None if named is None else str(named.expanduser().absolute())
        run(output, client, scope, _options(where, user), yes=yes)


@hooks.command()
@click.argument("client", type=CLIENTS)
@where_option
@yes_option
@json_option
@click.pass_context
def uninstall(context: click.Context, *, client: str, scope: Scope, yes: bool, json: bool) -> None:
    """Remove exactly what install added, after showing the change and asking."""
    with command(context.obj, json=json) as (_, output):
        from local2.cli.reach import uninstall as run

        run(output, client, scope, yes=yes)


@hooks.command("list")
@json_option
@click.pass_context
def list_hooks(context: click.Context, *, json: bool) -> None:
    """List which clients have hooks, and in which files."""
    with command(context.obj, json=json) as (_, output):
        from local2.cli.reach import list_hooks as run

        run(output)


@hook_commands.command(hidden=True)
@click.argument("client")
@click.argument("event")
@click.option("--home")
@click.option("--user")
def hook(*, client: str, event: str, home: str | None, user: str | None) -> None:
    """Run one hook with its event on standard input."""
    from local2.hooks.acting import main

    main([client, event, *_options(home, user)])


def _options(home: str | None, user: str | None) -> list[str]:
    """Return the options of a hook."""
    given = {"--home": home, "--user": user}
    return [word for name, value in given.items() if value for word in (name, value)]


tenants = click.Group(
    "tenants", help="Manage accounts: tenants, their agents, keys and tokens.", no_args_is_help=True
)

tenant_argument = click.argument("tenant", help="The tenant's name.")
one_agent_option = click.option("--agent", help="One of the tenant's agents.")


@tenants.command()
@click.option("--encrypt", is_flag=True, help="Encrypt what JetStream stores.")
@json_option
@click.pass_context
def init(context: click.Context, *, encrypt: bool, json: bool) -> None:
    """Create accounts. From then on, nobody can connect without credentials."""
    with command(context.obj, json=json) as (settings, output):
        from local2.cli.tenants import init as run

        run(settings, output, encrypt=encrypt)


@tenants.command()
@tenant_argument
@click.option("--agent", default="agent", help="The agent's name.")
@click.option(
    "--role", type=click.Choice(get_args(Role)), default="writer", help="What the agent may do."
)
@click.option("--encrypt", is_flag=True, help="Encrypt the memory of a new tenant.")
@json_option
@click.pass_context
def add(  # noqa: PLR0913 - one parameter an option
    context: click.Context, *, tenant: str, agent: str, role: Role, encrypt: bool, json: bool
) -> None:
    """Add a tenant, or another agent to it; print where the credentials are."""
    with command(context.obj, json=json) as (settings, output):
        from local2.cli.tenants import add as run

        run(settings, output, tenant, agent, role, encrypt=encrypt)


@tenants.command("list")
@json_option
@click.pass_context
def list_tenants(context: click.Context, *, json: bool) -> None:
    """List tenants and their agents."""
    with command(context.obj, json=json) as (settings, output):
        from local2.cli.tenants import list_tenants as run

        run(settings, output)


@tenants.command()
@tenant_argument
@one_agent_option
@json_option
@click.pass_context
def remove(context: click.Context, *, tenant: str, agent: str | None, json: bool) -> None:
    """Remove a tenant, or one of its agents. The tenant's memory stays."""
    with command(context.obj, json=json) as (settings, output):
        from local2.cli.tenants import remove as run

        run(settings, output, tenant, agent)


@tenants.command()
@tenant_argument
@one_agent_option
@json_option
@click.pass_context
def rotate(context: click.Context, *, tenant: str, agent: str | None, json: bool) -> None:
    """Replace an agent's key; without an agent, the key that signs the tenant's tokens."""
    with command(context.obj, json=json) as (settings, output):
        from local2.cli.tenants import rotate as run

        run(settings, output, tenant, agent)


@tenants.command()
@tenant_argument
@click.argument("tool", help="A tool of that tenant.")
@click.argument("others", nargs=-1, help="The tenants that may use it.")
@json_option
@click.pass_context
def share(
    context: click.Context, *, tenant: str, tool: str, others: tuple[str, ...], json: bool
) -> None:
    """Let other tenants use a tool; without OTHERS, stop sharing it."""
    with command(context.obj, json=json) as (settings, output):
        from local2.cli.tenants import share as run

        run(settings, output, tenant, tool, others)


@tenants.command()
@tenant_argument
@click.option("--user", required=True, help="The user whom the token names.")
@click.option(
    "--days", type=click.FloatRange(min=0), default=1.0, help="How many days it is valid."
)
@click.option(
    "--role", type=click.Choice(get_args(Role)), help="Limit the token to what this role may do."
)
@json_option
@click.pass_context
def token(  # noqa: PLR0913 - one parameter an option
    context: click.Context, *, tenant: str, user: str, days: float, role: Role | None, json: bool
) -> None:
    """Print a token that proves for which user an agent asks."""
    with command(context.obj, json=json) as (settings, output):
        from local2.cli.tenants import token as run

        run(settings, output, tenant, user, days=days, role=role)


@tenants.command("server-config")
@json_option
@click.pass_context
def server_config(context: click.Context, *, json: bool) -> None:
    """Print the accounts for the configuration of your own NATS server."""
    with command(context.obj, json=json) as (settings, output):
        from local2.cli.tenants import server_config as run

        run(settings, output)
