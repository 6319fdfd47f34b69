"""Commands that give others access to the memory: MCP, hooks of coding agents, and accounts."""

from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any

import msgspec
import typer

from local.cli.commands import Json
from local.cli.output import GlobalOptions, command
from local.hooks.clients.client import Scope
from local.protocol.envelope import Role

servers = typer.Typer()


@servers.command()
def mcp(  # noqa: PLR0913, PLR0917 - one parameter an option
    context: typer.Context,
    http: Annotated[
        bool,
        typer.Option("--http", help="Serve over HTTP on this machine instead, with a token."),
    ] = False,
    port: Annotated[
        int | None,
        typer.Option(min=0, max=65_535, help="The port for --http; 0 means any free port."),
    ] = None,
    profile: Annotated[
        list[str] | None,
        typer.Option(help="default, full, read-only, or the name of a tool. Repeatable."),
    ] = None,
    user: Annotated[
        str | None, typer.Option(help="Whose memory. Default: the user who is logged in.")
    ] = None,
    agent: Annotated[
        str | None, typer.Option(help="The agent's name. Default: the client's own.")
    ] = None,
    session: Annotated[
        str | None, typer.Option(help="The session. Default: a new session.")
    ] = None,
    home: Annotated[
        Path | None,
        typer.Option(help="The memory's folder. Default: this project's, or else the user's."),
    ] = None,
) -> None:
    """Serve the memory over MCP to the client that starts this command, on stdin and stdout."""
    from local.mcp.opening import answer_initialize

    opening = None if http else answer_initialize()
    chosen: GlobalOptions = context.obj
    with command(chosen._replace(home=home or chosen.home)) as (settings, output):
        from local.cli.reach import serve_http, serve_stdio

        options = {"user": user, "agent": agent, "session": session, "port": port}
        given: dict[str, Any] = {k: v for k, v in options.items() if v is not None}
        given |= {"profile": tuple(profile)} if profile else {}
        own = msgspec.structs.replace(settings.mcp, **given)
        chosen_settings = msgspec.structs.replace(settings, mcp=own)
        if opening is None:
            serve_http(chosen_settings, output)
        else:
            serve_stdio(chosen_settings, opening)


hooks = typer.Typer(
    help="Hooks of coding agents, which store and recall memories automatically.",
    no_args_is_help=True,
)
hook_commands = typer.Typer()
"""The command that the hooks call."""


class ClientName(StrEnum):
    CLAUDE_CODE = "claude-code"
    CODEX = "codex"
    CURSOR = "cursor"


Where = Annotated[
    Scope, typer.Option(help="Use the settings of the user or of the current folder.")
]
Home = Annotated[
    Path | None,
    typer.Option(help="The memory's folder. Default: the current project's, or else the user's."),
]
User = Annotated[str | None, typer.Option(help="Whose memory. Default: the user who is logged in.")]
Yes = Annotated[bool, typer.Option("--yes", help="Do not ask for confirmation.")]


@hooks.command()
def install(  # noqa: PLR0913, PLR0917 - one parameter an option
    context: typer.Context,
    client: ClientName,
    scope: Where = "user",
    home: Home = None,
    user: User = None,
    yes: Yes = False,
    json: Json = False,
) -> None:
    """Add the hooks to a client's settings, after showing the change and asking."""
    with command(context.obj, json=json) as (_, output):
        from local.cli.reach import install as run

        named = home or context.obj.home
        where = None if named is None else str(named.expanduser().absolute())
        run(output, client, scope, _options(where, user), yes=yes)


@hooks.command()
def uninstall(
    context: typer.Context,
    client: ClientName,
    scope: Where = "user",
    yes: Yes = False,
    json: Json = False,
) -> None:
    """Remove exactly what install added, after showing the change and asking."""
    with command(context.obj, json=json) as (_, output):
        from local.cli.reach import uninstall as run

        run(output, client, scope, yes=yes)


@hooks.command("list")
def list_hooks(context: typer.Context, json: Json = False) -> None:
    """List which clients have hooks, and in which files."""
    with command(context.obj, json=json) as (_, output):
        from local.cli.reach import list_hooks as run

        run(output)


@hook_commands.command(hidden=True)
def hook(client: str, event: str, home: str | None = None, user: str | None = None) -> None:
    """Run one hook with its event on standard input."""
    from local.hooks.acting import main

    main([client, event, *_options(home, user)])


def _options(home: str | None, user: str | None) -> list[str]:
    """Return the options of a hook."""
    given = {"--home": home, "--user": user}
    return [word for name, value in given.items() if value for word in (name, value)]


tenants = typer.Typer(
    help="Manage accounts: tenants, their agents, keys and tokens.", no_args_is_help=True
)

Tenant = Annotated[str, typer.Argument(help="The tenant's name.")]
OneAgent = Annotated[str | None, typer.Option("--agent", help="One of the tenant's agents.")]


@tenants.command()
def init(
    context: typer.Context,
    encrypt: Annotated[
        bool, typer.Option("--encrypt", help="Encrypt what JetStream stores.")
    ] = False,
    json: Json = False,
) -> None:
    """Create accounts. From then on, nobody can connect without credentials."""
    with command(context.obj, json=json) as (settings, output):
        from local.cli.tenants import init as run

        run(settings, output, encrypt=encrypt)


@tenants.command()
def add(  # noqa: PLR0913, PLR0917 - one parameter an option
    context: typer.Context,
    tenant: Tenant,
    agent: Annotated[str, typer.Option(help="The agent's name.")] = "agent",
    role: Annotated[Role, typer.Option(help="What the agent may do.")] = "writer",
    encrypt: Annotated[
        bool, typer.Option("--encrypt", help="Encrypt the memory of a new tenant.")
    ] = False,
    json: Json = False,
) -> None:
    """Add a tenant, or another agent to it; print where the credentials are."""
    with command(context.obj, json=json) as (settings, output):
        from local.cli.tenants import add as run

        run(settings, output, tenant, agent, role, encrypt=encrypt)


@tenants.command("list")
def list_tenants(context: typer.Context, json: Json = False) -> None:
    """List tenants and their agents."""
    with command(context.obj, json=json) as (settings, output):
        from local.cli.tenants import list_tenants as run

        run(settings, output)


@tenants.command()
def remove(
    context: typer.Context, tenant: Tenant, agent: OneAgent = None, json: Json = False
) -> None:
    """Remove a tenant, or one of its agents. The tenant's memory stays."""
    with command(context.obj, json=json) as (settings, output):
        from local.cli.tenants import remove as run

        run(settings, output, tenant, agent)


@tenants.command()
def rotate(
    context: typer.Context, tenant: Tenant, agent: OneAgent = None, json: Json = False
) -> None:
    """Replace an agent's key; without an agent, the key that signs the tenant's tokens."""
    with command(context.obj, json=json) as (settings, output):
        from local.cli.tenants import rotate as run

        run(settings, output, tenant, agent)


@tenants.command()
def share(
    context: typer.Context,
    tenant: Tenant,
    tool: Annotated[str, typer.Argument(help="A tool of that tenant.")],
    others: Annotated[list[str] | None, typer.Argument(help="The tenants that may use it.")] = None,
    json: Json = False,
) -> None:
    """Let other tenants use a tool; without OTHERS, stop sharing it."""
    with command(context.obj, json=json) as (settings, output):
        from local.cli.tenants import share as run

        run(settings, output, tenant, tool, others or [])


@tenants.command()
def token(  # noqa: PLR0913, PLR0917 - one parameter an option
    context: typer.Context,
    tenant: Tenant,
    user: Annotated[str, typer.Option(help="The user whom the token names.")],
    days: Annotated[float, typer.Option(help="How many days it is valid.", min=0)] = 1.0,
    role: Annotated[
        Role | None, typer.Option(help="Limit the token to what this role may do.")
    ] = None,
    json: Json = False,
) -> None:
    """Print a token that proves for which user an agent asks."""
    with command(context.obj, json=json) as (settings, output):
        from local.cli.tenants import token as run

        run(settings, output, tenant, user, days=days, role=role)


@tenants.command("server-config")
def server_config(context: typer.Context, json: Json = False) -> None:
    """Print the accounts for the configuration of your own NATS server."""
    with command(context.obj, json=json) as (settings, output):
        from local.cli.tenants import server_config as run

        run(settings, output)
