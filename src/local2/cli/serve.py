"""`local2 serve`: the memory over HTTP."""

from typing import Any

import click
import msgspec

from local2.cli.commands import command
from local2.cli.output import Output
from local2.settings import Settings
from local2.web.server import ServerAddress
from local2.web.server import serve as serve_http


@command(json=False)
@click.option(
    "--port", type=click.IntRange(min=0, max=65_535), help="The port; 0 means any free port."
)
@click.option("--user", help="The user of requests that name none. Default: who is logged in.")
async def serve(settings: Settings, output: Output, **named: Any) -> None:
    given = {name: value for name, value in named.items() if value is not None}
    chosen = msgspec.structs.replace(settings.http, **given)

    def print_address(address: ServerAddress) -> None:
        text = f"HTTP: {address.url}/v1/openapi.json\nAuthorization: Bearer, with {address.token}"
        output.text(text, as_it_is=True)

    await serve_http(msgspec.structs.replace(settings, http=chosen), print_address)
