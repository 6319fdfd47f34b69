"""`local2 mcp`: the memory for agents that speak the Model Context Protocol."""

from local.cli.output import run_async
from local.mcp.opening import Opening
from local.mcp.stdio import serve
from local.settings import Settings


def serve_stdio(settings: Settings, opening: Opening) -> None:
    run_async(serve(settings, opening))
