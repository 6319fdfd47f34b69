"""Commands by which other agents reach the memory."""

from pathlib import Path
from typing import Annotated

import msgspec
import typer

from local.cli.output import Chosen, command
from local.home import home_of
from local.settings import McpSettings

group = typer.Typer()


@group.command()
def mcp(  # noqa: PLR0913, PLR0917 - one parameter an option
    context: typer.Context,
    profile: Annotated[
        list[str] | None,
        typer.Option(help="default, full, read-only, or a tool's name; several names are fine."),
    ] = None,
    user: Annotated[str | None, typer.Option(help="Whose memory; else who is logged in.")] = None,
    agent: Annotated[str | None, typer.Option(help="Else the client's own name.")] = None,
    session: Annotated[str | None, typer.Option(help="Else a new one.")] = None,
    home: Annotated[
        Path | None,
        typer.Option(help="The memory's folder; else this project's, else the user's own."),
    ] = None,
) -> None:
    """Serve the memory over MCP to the client that starts this, by standard input and output."""
    from local.mcp.opening import opened

    opening = opened()
    chosen: Chosen = context.obj
    with command(chosen._replace(home=home_of(home))) as (settings, _):
        from local.cli.mcp import serve_stdio

        whose = {"user": user, "agent": agent, "session": session}
        given = {name: value for name, value in whose.items() if value is not None}
        own: McpSettings = msgspec.structs.replace(settings.mcp, **given)
        if profile:
            own = msgspec.structs.replace(own, profile=tuple(profile))
        serve_stdio(msgspec.structs.replace(settings, mcp=own), opening)
