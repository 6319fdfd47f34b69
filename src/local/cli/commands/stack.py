"""Commands on the stack itself: start it, talk to it, test it, examine it and repair it."""

from pathlib import Path
from typing import Annotated

import typer

from local import __version__
from local.cli.commands import Agent, Json, Session, User, caller_of
from local.cli.output import Output, command
from local.home import asking_user
from local.settings import ChatChoice

talk = typer.Typer()


WhileUsed = Annotated[
    float | None,
    typer.Option(
        metavar="SECONDS", min=0, help="Run without a chat; stop after this long without clients."
    ),
]


@talk.command()
def up(context: typer.Context, while_used: WhileUsed = None) -> None:
    """Start the stack, with a chat if in a terminal, else as a service. Ctrl-C stops it."""
    with command(context.obj) as (settings, _):
        from local.cli.up import up as run

        run(settings, while_used=while_used)


@talk.command()
def chat(context: typer.Context, session: Session = None, user: User = None) -> None:
    """Talk to a running stack."""
    with command(context.obj) as (settings, _):
        from local.cli.talk import chat as run

        run(settings, session=session, user=asking_user(settings.bus, user))


@talk.command()
def ask(
    context: typer.Context,
    text: str,
    session: Session = None,
    user: User = None,
    json: Json = False,
) -> None:
    """Ask one question and print the answer."""
    with command(context.obj, json=json) as (settings, output):
        from local.cli.talk import ask as run

        run(settings, output, text, session=session, user=asking_user(settings.bus, user))


@talk.command()
def tools(context: typer.Context, json: Json = False) -> None:
    """List the tools on the bus."""
    with command(context.obj, json=json) as (settings, output):
        from local.cli.talk import list_tools

        list_tools(settings, output)


@talk.command()
def call(  # noqa: PLR0913, PLR0917 - one parameter an option
    context: typer.Context,
    tool: str,
    arguments: Annotated[
        list[str] | None, typer.Argument(metavar="KEY=VALUE…", help="The tool's arguments.")
    ] = None,
    session: Annotated[str | None, typer.Option(help="Call it in this session.")] = None,
    user: User = None,
    agent: Agent = "cli",
    json: Json = False,
) -> None:
    """Call one tool, e.g. `local2 call save_topic topic=user.name content=Richard`."""
    with command(context.obj, json=json) as (settings, output):
        from local.cli.talk import call as run

        caller = caller_of(settings, user, agent, session)
        run(settings, output, tool, arguments or [], caller)


upkeep = typer.Typer()


@upkeep.command()
def stories(
    context: typer.Context,
    paths: Annotated[
        list[Path] | None, typer.Argument(help="Files or folders. Default: stories.")
    ] = None,
    model: Annotated[ChatChoice, typer.Option(help="The chat model that answers.")] = "auto",
    nats: Annotated[
        str | None, typer.Option(help="The bus of a stack to use instead of new ones.")
    ] = None,
    json: Json = False,
) -> None:
    """Play stories against live stacks in temporary folders; exit with code 1 if one fails."""
    with command(context.obj, json=json) as (settings, output):
        from local.cli.stories import stories as run

        run(settings, output, paths or [Path("stories")], model=model, nats=nats)


@upkeep.command()
def doctor(
    context: typer.Context,
    deep: Annotated[
        bool, typer.Option("--deep", help="Also read the whole ledger; no stack may be running.")
    ] = False,
    ready: Annotated[
        bool,
        typer.Option("--ready", help="Only check whether the stack serves; exit with 1 if not."),
    ] = False,
    json: Json = False,
) -> None:
    """Check that everything works, and say how to repair what does not."""
    with command(context.obj, json=json) as (settings, output):
        if ready:
            from local.cli.upkeep import ready as ask

            ask(settings, output)
            return
        from local.cli.upkeep import doctor as run

        run(settings, output, deep=deep)


@upkeep.command()
def reindex(
    context: typer.Context,
    embedder: Annotated[
        str | None,
        typer.Option(
            help="Change to another embedder while the present one serves: minilm, an Ollama "
            "model, or openai:MODEL of an endpoint. Naming the present one cancels a change."
        ),
    ] = None,
    wait: Annotated[
        bool, typer.Option("--wait/--no-wait", help="Wait until the other embedder serves.")
    ] = True,
    json: Json = False,
) -> None:
    """Rebuild the vector index from the ledger, whether or not a stack is running."""
    with command(context.obj, json=json) as (settings, output):
        from local.cli.upkeep import reindex as run

        run(settings, output, embedder, wait=wait)


@upkeep.command()
def backup(
    context: typer.Context,
    folder: Annotated[
        Path | None,
        typer.Argument(metavar="DIR", help="The folder. Default: backup_folder in the settings."),
    ] = None,
    recipient: Annotated[
        str | None,
        typer.Option(help="Encrypt for this age public key, or for those in this file."),
    ] = None,
    keep: Annotated[
        int | None,
        typer.Option(
            min=1, help="How many backups to keep in DIR. Default: backup_keep in the settings."
        ),
    ] = None,
    json: Json = False,
) -> None:
    """Back up everything, whether or not a stack is running."""
    with command(context.obj, json=json) as (settings, output):
        from local.cli.upkeep import backup as run

        run(settings, output, folder, recipient=recipient, keep=keep)


@upkeep.command()
def restore(  # noqa: PLR0913, PLR0917 - one parameter an option
    context: typer.Context,
    folder: Annotated[
        Path, typer.Argument(metavar="DIR", help="The folder that `backup` wrote to.")
    ],
    generation: Annotated[
        str | None, typer.Option(help="The name of a backup in DIR. Default: the newest.")
    ] = None,
    data_dir: Annotated[
        Path | None, typer.Option(help="Where to restore it. Default: data_dir in the settings.")
    ] = None,
    identity: Annotated[
        Path | None, typer.Option(help="The file with the age secret key that decrypts it.")
    ] = None,
    replace: Annotated[
        bool, typer.Option("--replace", help="Move an existing memory aside.")
    ] = False,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only read the whole backup.")] = False,
    json: Json = False,
) -> None:
    """Restore a backup. No stack may be running."""
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


@upkeep.command()
def migrate(
    context: typer.Context,
    back: Annotated[
        bool, typer.Option("--back", help="Go back to the ledger before the last migration.")
    ] = False,
    yes: Annotated[bool, typer.Option("--yes", help="Do not ask for confirmation.")] = False,
    json: Json = False,
) -> None:
    """Migrate the ledger to this version, as a start does, or go back. No stack may be running."""
    with command(context.obj, json=json) as (settings, output):
        from local.cli.restore import migrate as run

        run(settings, output, back=back, yes=yes)


@upkeep.command()
def version(json: Json = False) -> None:
    """Print the version."""
    output = Output(json=json)
    output.data({"version": __version__})
    output.text(__version__)


dead_letters = typer.Typer(
    help="List, show, retry or drop messages that could not be read.",
    no_args_is_help=True,
)

Numbers = Annotated[
    list[int] | None, typer.Argument(metavar="NUMBER…", help="Their numbers, as listed.")
]
All = Annotated[bool, typer.Option("--all", help="All dead letters.")]


@dead_letters.command("list")
def list_dead_letters(context: typer.Context, json: Json = False) -> None:
    """List the messages that could not be read, and why."""
    with command(context.obj, json=json) as (settings, output):
        from local.cli.dead_letters import list_letters

        list_letters(settings, output)


@dead_letters.command("show")
def show_dead_letter(
    context: typer.Context,
    number: Annotated[int, typer.Argument(metavar="NUMBER", help="Its number, as listed.")],
    json: Json = False,
) -> None:
    """Show one dead letter with its message."""
    with command(context.obj, json=json) as (settings, output):
        from local.cli.dead_letters import show

        show(settings, output, number)


@dead_letters.command("retry")
def retry_dead_letters(
    context: typer.Context,
    numbers: Numbers = None,
    every: All = False,
    user: User = None,
    json: Json = False,
) -> None:
    """Publish messages again, and drop their dead letters once JetStream has stored them.

    With accounts, name the user with --user, because dead letters contain no tokens.
    """
    with command(context.obj, json=json) as (settings, output):
        from local.cli.dead_letters import retry

        retry(settings, output, numbers or [], user, every=every)


@dead_letters.command("drop")
def drop_dead_letters(
    context: typer.Context, numbers: Numbers = None, every: All = False, json: Json = False
) -> None:
    """Remove dead letters for good."""
    with command(context.obj, json=json) as (settings, output):
        from local.cli.dead_letters import drop

        drop(settings, output, numbers or [], every=every)
