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
    ready: Annotated[
        bool,
        typer.Option("--ready", help="Only ask the stack whether it serves; exit 1 if not."),
    ] = False,
    json: Json = False,
) -> None:
    """Check that everything is there, and say how to mend what is not."""
    with command(context.obj, json=json) as (settings, output):
        if ready:
            from local.cli.ready import ready as ask

            ask(settings, output)
            return
        from local.cli.upkeep import doctor as run

        run(settings, output, deep=deep)


@group.command()
def reindex(
    context: typer.Context,
    embedder: Annotated[
        str | None,
        typer.Option(
            help="Change to another embedder, while the present one serves: minilm, a model of "
            "Ollama's, or openai:MODEL of an endpoint; the present one gives that up."
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
def backup(
    context: typer.Context,
    folder: Annotated[
        Path | None, typer.Argument(metavar="DIR", help="Else backup_folder of the settings.")
    ] = None,
    recipient: Annotated[
        str | None,
        typer.Option(help="Encrypt to this public key of age, or to those of this file."),
    ] = None,
    keep: Annotated[
        int | None, typer.Option(min=1, help="How many backups stay in DIR; else backup_keep.")
    ] = None,
    json: Json = False,
) -> None:
    """Make a backup of everything, of the running stack or without one."""
    with command(context.obj, json=json) as (settings, output):
        from local.cli.backup import backup as run

        run(settings, output, folder, recipient=recipient, keep=keep)


@group.command()
def restore(  # noqa: PLR0913, PLR0917 - one parameter an option
    context: typer.Context,
    folder: Annotated[Path, typer.Argument(metavar="DIR", help="What `backup` wrote.")],
    generation: Annotated[
        str | None, typer.Option(help="The name of the backup in it; else the newest.")
    ] = None,
    data_dir: Annotated[
        Path | None, typer.Option(help="Where to; else data_dir of the settings.")
    ] = None,
    identity: Annotated[
        Path | None, typer.Option(help="The file of the secret key of age that opens it.")
    ] = None,
    replace: Annotated[
        bool, typer.Option("--replace", help="Move aside the memory that is there.")
    ] = False,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Only read all of the backup.")
    ] = False,
    json: Json = False,
) -> None:
    """Bring a backup back, while no stack runs."""
    with command(context.obj, json=json) as (settings, output):
        from local.cli.restore import restore as run

        run(
            settings,
            output,
            folder,
            generation=generation,
            data_dir=data_dir,
            identity=identity,
            replace=replace,
            dry_run=dry_run,
        )


@group.command()
def migrate(
    context: typer.Context,
    back: Annotated[
        bool, typer.Option("--back", help="Return to the ledger from before the last migration.")
    ] = False,
    yes: Annotated[bool, typer.Option("--yes", help="Do not ask.")] = False,
    json: Json = False,
) -> None:
    """Bring the ledger up to date, as a start does, or back, while no stack runs."""
    with command(context.obj, json=json) as (settings, output):
        from local.cli.restore import migrate as run

        run(settings, output, back=back, yes=yes)


@group.command()
def version() -> None:
    """Print the version."""
    typer.echo(__version__)
