"""`local2 mcp`: the memory for agents that speak the Model Context Protocol."""

from local.cli.output import Output, run_async
from local.mcp.opening import Opening
from local.settings import Settings


def serve_stdio(settings: Settings, opening: Opening) -> None:
    from local.mcp.stdio import serve  # noqa: PLC0415 - nothing of HTTP is imported for it

    run_async(serve(settings, opening))


def serve_http(settings: Settings, output: Output) -> None:
    from local.mcp.http import Address, serve  # noqa: PLC0415

    def tell(address: Address) -> None:
        token = address.token_file or "LOCAL2_MCP__TOKEN or config/mcp.yaml"
        output.text(f"MCP: {address.url}\nAuthorization: Bearer, with the token of {token}")

    run_async(serve(settings, tell))
