"""Commands that say who may connect to the stack."""

from typing import Annotated

import typer

from local.cli.commands.options import Json
from local.cli.output import command
from local.protocol.envelope import Role

group = typer.Typer(help="Accounts: tenants, their agents, keys and tokens.", no_args_is_help=True)

Tenant = Annotated[str, typer.Argument(help="The tenant's name.")]
OneAgent = Annotated[str | None, typer.Option("--agent", help="One of its agents.")]


@group.command()
def init(
    context: typer.Context,
    encrypt: Annotated[
        bool, typer.Option("--encrypt", help="What JetStream stores is encrypted.")
    ] = False,
    json: Json = False,
) -> None:
    """Make accounts: from then on nobody connects without credentials."""
    with command(context.obj, json=json) as (settings, output):
        from local.cli.tenants import init as run

        run(settings, output, encrypt=encrypt)


@group.command()
def add(  # noqa: PLR0913, PLR0917 - one parameter an option
    context: typer.Context,
    tenant: Tenant,
    agent: Annotated[str, typer.Option(help="What its agent is called.")] = "agent",
    role: Annotated[Role, typer.Option(help="What that agent may do.")] = "writer",
    encrypt: Annotated[
        bool, typer.Option("--encrypt", help="What a new tenant remembers is encrypted.")
    ] = False,
    json: Json = False,
) -> None:
    """Add a tenant, or another agent to it; prints where the credentials are."""
    with command(context.obj, json=json) as (settings, output):
        from local.cli.tenants import add as run

        run(settings, output, tenant, agent, role, encrypt=encrypt)


@group.command("list")
def list_tenants(context: typer.Context, json: Json = False) -> None:
    """List tenants and their agents."""
    with command(context.obj, json=json) as (settings, output):
        from local.cli.tenants import list_tenants as run

        run(settings, output)


@group.command()
def remove(
    context: typer.Context, tenant: Tenant, agent: OneAgent = None, json: Json = False
) -> None:
    """Remove a tenant, or one of its agents; what is remembered stays."""
    with command(context.obj, json=json) as (settings, output):
        from local.cli.tenants import remove as run

        run(settings, output, tenant, agent)


@group.command()
def rotate(
    context: typer.Context, tenant: Tenant, agent: OneAgent = None, json: Json = False
) -> None:
    """Replace an agent's key; without an agent, the key that signs the tenant's tokens."""
    with command(context.obj, json=json) as (settings, output):
        from local.cli.tenants import rotate as run

        run(settings, output, tenant, agent)


@group.command()
def share(
    context: typer.Context,
    tenant: Tenant,
    tool: Annotated[str, typer.Argument(help="A tool of that tenant.")],
    others: Annotated[list[str] | None, typer.Argument(help="Who may use it.")] = None,
    json: Json = False,
) -> None:
    """Let other tenants use a tool; without any, nobody may any more."""
    with command(context.obj, json=json) as (settings, output):
        from local.cli.tenants import share as run

        run(settings, output, tenant, tool, others or [])


@group.command()
def token(  # noqa: PLR0913, PLR0917 - one parameter an option
    context: typer.Context,
    tenant: Tenant,
    user: Annotated[str, typer.Option(help="For whom.")],
    days: Annotated[float, typer.Option(help="How long it is valid.", min=0)] = 1.0,
    role: Annotated[Role | None, typer.Option(help="At most what this role may.")] = None,
    json: Json = False,
) -> None:
    """Print a token that says for whom an agent asks."""
    with command(context.obj, json=json) as (settings, output):
        from local.cli.tenants import token as run

        run(settings, output, tenant, user, days=days, role=role)


@group.command("server-config")
def server_config(context: typer.Context, json: Json = False) -> None:
    """Print the accounts for a NATS server of your own."""
    with command(context.obj, json=json) as (settings, output):
        from local.cli.tenants import server_config as run

        run(settings, output)
