"""`local2 serve`: the memory over HTTP; `local2 web`: also the page for people."""

from typing import Any

import click
import msgspec

from local2.cli.commands import CommandFunction, command
from local2.cli.output import Output
from local2.settings import Settings
from local2.web.server import HttpAddress, with_extra
from local2.web.server import serve as serve_http


def _server_options(function: CommandFunction) -> CommandFunction:
    function = click.option(
        "--user", help="The user of requests that name none. Default: who is logged in."
    )(function)
    return click.option(
        "--port", type=click.IntRange(min=0, max=65_535), help="The port; 0 means any free port."
    )(function)


@command(json=False)
@_server_options
async def serve(settings: Settings, output: Output, **named: Any) -> None:
    await _serve(settings, output, named, with_pages=False)


@command(json=False)
@_server_options
@click.option(
    "--link", is_flag=True, help="Print another link to the page that is served, and end."
)
async def web(settings: Settings, output: Output, *, link: bool, **named: Any) -> None:
    if link:
        with with_extra():
            from local2.web.pages.links import links_of_served_page  # noqa: PLC0415
        links = links_of_served_page(settings.memory.data_dir)
        output.text(f"Page: {links.make_link()}", as_it_is=True)
        return
    await _serve(settings, output, named, with_pages=True)


async def _serve(
    settings: Settings, output: Output, named: dict[str, Any], *, with_pages: bool
) -> None:
    given = {name: value for name, value in named.items() if value is not None}
    chosen = msgspec.structs.replace(settings.http, **given)

    def print_address(address: HttpAddress) -> None:
        if address.page is not None:
            output.text(f"Page: {address.page}", as_it_is=True)
        text = f"HTTP: {address.url}/v1/openapi.json\nAuthorization: Bearer, with {address.token}"
        output.text(text, as_it_is=True)

    settings = msgspec.structs.replace(settings, http=chosen)
    await serve_http(settings, print_address, with_pages=with_pages)
