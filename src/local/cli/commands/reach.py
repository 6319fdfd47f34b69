"""Commands by which other agents reach the memory."""

from pathlib import Path
from typing import Annotated, Any

import msgspec
import typer

from local.cli.output import Chosen, command
from local.home import home_of

group = typer.Typer()


@group.command()
def mcp(  # noqa: PLR0913, PLR0917 - one parameter an option
    context: typer.Context,
    http: Annotated[
        bool, typer.Option("--http", help="Serve on this machine over HTTP instead, with a token.")
    ] = False,
    port: Annotated[int | None, typer.Option(help="Of --http; 0 for any that is free.")] = None,
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

    opening = None if http else opened()
    chosen: Chosen = context.obj
    with command(chosen._replace(home=home_of(home))) as (settings, output):
        from local.cli.mcp import serve_http, serve_stdio

        options = {"user": user, "agent": agent, "session": session, "port": port}
        given: dict[str, Any] = {k: v for k, v in options.items() if v is not None}
        given |= {"profile": tuple(profile)} if profile else {}
        own = msgspec.structs.replace(settings.mcp, **given)
        chosen_settings = msgspec.structs.replace(settings, mcp=own)
        if opening is None:
            serve_http(chosen_settings, output)
        else:
            serve_stdio(chosen_settings, opening)
