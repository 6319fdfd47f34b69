"""Commands that try the stack, examine it and mend it."""

from pathlib import Path
from typing import Annotated

import typer

from local import __version__
from local.cli.commands.options import Json
from local.cli.output import command
from local.settings import ChatChoice

group = typer.Typer()


@group.command()
def stories(
    context: typer.Context,
    paths: Annotated[list[Path] | None, typer.Argument(help="Files or folders.")] = None,
    model: Annotated[ChatChoice, typer.Option(help="Which chat model answers.")] = "auto",
    nats: Annotated[str | None, typer.Option(help="Use the stack on this bus.")] = None,
    json: Json = False,
) -> None:
    """Play stories against the live stack, in a temporary folder; exit 1 if one fails."""
    with command(context.obj, json=json) as (settings, output):
        from local.cli.stories import stories as run

        run(settings, output, paths or [Path("stories")], model=model, nats=nats)


@group.command()
def doctor(
    context: typer.Context,
    deep: Annotated[
        bool, typer.Option("--deep", help="Also read all of the ledger, while no stack runs.")
    ] = False,
    json: Json = False,
) -> None:
    """Check that everything is there, and say how to mend what is not."""
    with command(context.obj, json=json) as (settings, output):
        from local.cli.upkeep import doctor as run

        run(settings, output, deep=deep)


@group.command()
def reindex(
    context: typer.Context,
    embedder: Annotated[
        str | None,
        typer.Option(
            help="Change to another embedder, while the present one serves: minilm, or a model "
            "of Ollama's; the present one gives that up."
        ),
    ] = None,
    wait: Annotated[
        bool, typer.Option("--wait/--no-wait", help="Stay until the other embedder serves.")
    ] = True,
    json: Json = False,
) -> None:
    """Rebuild the vector index from the ledger, in the running stack or without one."""
    with command(context.obj, json=json) as (settings, output):
        from local.cli.upkeep import reindex as run

        run(settings, output, embedder, wait=wait)


@group.command()
def version() -> None:
    """Print the version."""
    typer.echo(__version__)
