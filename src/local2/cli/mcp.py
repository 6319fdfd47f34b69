"""`local2 mcp`: serve the memory over the Model Context Protocol."""

from pathlib import Path
from typing import Any

import click
import msgspec

from local2.cli.commands import PATH, GlobalOptions, running
from local2.cli.output import run_async
from local2.errors import ConfigError
from local2.mcp.opening import answer_initialize


@click.command()
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
@click.pass_obj
def mcp(
    chosen: GlobalOptions,
    /,
    *,
    http: bool,
    profile: tuple[str, ...],
    home: Path | None,
    **named: str | int | None,
) -> None:
    opening = None if http else answer_initialize()
    with running(chosen._replace(home=home or chosen.home)) as (settings, output):
        given: dict[str, Any] = {name: value for name, value in named.items() if value is not None}
        given |= {"profile": profile} if profile else {}
        own = msgspec.structs.replace(settings.mcp, **given)
        chosen_settings = msgspec.structs.replace(settings, mcp=own)
        if opening is None:
            from local2.mcp.http import ServerAddress  # noqa: PLC0415
            from local2.mcp.http import serve as serve_http  # noqa: PLC0415

            def print_address(address: ServerAddress) -> None:
                where = address.token_is_in
                text = f"MCP: {address.url}\nAuthorization: Bearer, with the token in {where}"
                output.text(text, as_it_is=True)

            run_async(serve_http(chosen_settings, print_address))
            return
        if not opening.has_client:  # one end is a file, on which an event loop cannot wait
            raise ConfigError(
                "Standard input and output must be pipes to a client.",
                remedy="Let a client start `local2 mcp`; for files, use "
                "`cat FILE | local2 mcp | cat`.",
            )
        from local2.mcp.stdio import serve as serve_stdio  # noqa: PLC0415 - without HTTP

        run_async(serve_stdio(chosen_settings, opening))
