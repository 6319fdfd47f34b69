"""Commands on the stack itself: start it, talk to it, test it, examine it and repair it."""

from pathlib import Path
from typing import get_args

import click

from local2._version import __version__
from local2.cli.commands import (
    PATH,
    agent_option,
    caller_of,
    json_option,
    session_option,
    user_option,
)
from local2.cli.output import Output, command
from local2.home import asking_user
from local2.settings import ChatChoice

talk = click.Group()


@talk.command()
@click.option(
    "--while-used",
    metavar="SECONDS",
    type=click.FloatRange(min=0),
    help="Run without a chat; stop after this long without clients.",
)
@click.pass_context
def up(context: click.Context, *, while_used: float | None) -> None:
    """Start the stack, with a chat if in a terminal, else as a service. Ctrl-C stops it."""
    with command(context.obj) as (settings, _):
        from local2.cli.up import up as run

        run(settings, while_used=while_used)


@talk.command()
@session_option
@user_option
@click.pass_context
def chat(context: click.Context, *, session: str | None, user: str | None) -> None:
    """Talk to a running stack."""
    with command(context.obj) as (settings, _):
        from local2.cli.talk import chat as run

        run(settings, session=session, user=asking_user(settings.bus, user))


@talk.command()
@click.argument("text")
@session_option
@user_option
@json_option
@click.pass_context
def ask(
    context: click.Context, *, text: str, session: str | None, user: str | None, json: bool
) -> None:
    """Ask one question and print the answer."""
    with command(context.obj, json=json) as (settings, output):
        from local2.cli.talk import ask as run

        run(settings, output, text, session=session, user=asking_user(settings.bus, user))


@talk.command()
@json_option
@click.pass_context
def tools(context: click.Context, *, json: bool) -> None:
    """List the tools on the bus."""
    with command(context.obj, json=json) as (settings, output):
        from local2.cli.talk import list_tools

        list_tools(settings, output)


@talk.command()
@click.argument("tool")
@click.argument("arguments", metavar="KEY=VALUE…", nargs=-1, help="The tool's arguments.")
@click.option("--session", help="Call it in this session.")
@user_option
@agent_option
@json_option
@click.pass_context
def call(  # noqa: PLR0913 - one parameter an option
    context: click.Context,
    *,
    tool: str,
    arguments: tuple[str, ...],
    session: str | None,
    user: str | None,
    agent: str,
    json: bool,
) -> None:
    """Call one tool: `local2 call save_topic topic=user.name content=Richard`."""
    with command(context.obj, json=json) as (settings, output):
        from local2.cli.talk import call as run

        caller = caller_of(settings, user, agent, session)
        run(settings, output, tool, arguments, caller)


upkeep = click.Group()


@upkeep.command()
@click.argument("paths", nargs=-1, type=PATH, help="Files or folders. Default: stories.")
@click.option(
    "--model",
    type=click.Choice(get_args(ChatChoice)),
    default="auto",
    help="The chat model that answers.",
)
@click.option("--nats", help="The bus of a stack to use instead of new ones.")
@json_option
@click.pass_context
def stories(
    context: click.Context,
    *,
    paths: tuple[Path, ...],
    model: ChatChoice,
    nats: str | None,
    json: bool,
) -> None:
    """Play stories against live stacks in temporary folders; exit with code 1 if one fails."""
    with command(context.obj, json=json) as (settings, output):
        from local2.cli.stories import stories as run

        run(settings, output, paths or [Path("stories")], model=model, nats=nats)


@upkeep.command()
@click.option("--deep", is_flag=True, help="Also read the whole ledger; no stack may be running.")
@click.option(
    "--ready", is_flag=True, help="Only check whether the stack serves; exit with 1 if not."
)
@json_option
@click.pass_context
def doctor(context: click.Context, *, deep: bool, ready: bool, json: bool) -> None:
    """Check that everything works, and say how to repair what does not."""
    with command(context.obj, json=json) as (settings, output):
        if ready:
            from local2.cli.upkeep import ready as ask

            ask(settings, output)
            return
        from local2.cli.upkeep import doctor as run

        run(settings, output, deep=deep)


@upkeep.command()
@click.option(
    "--embedder",
    help="Change to another embedder while the present one serves: minilm, an Ollama "
    "model, or openai:MODEL of an endpoint. Naming the present one cancels a change.",
)
@click.option("--wait/--no-wait", default=True, help="Wait until the other embedder serves.")
@json_option
@click.pass_context
def reindex(context: click.Context, *, embedder: str | None, wait: bool, json: bool) -> None:
    """Rebuild the vector index from the ledger, whether or not a stack is running."""
    with command(context.obj, json=json) as (settings, output):
        from local2.cli.upkeep import reindex as run

        run(settings, output, embedder, wait=wait)


@upkeep.command()
@click.argument(
    "folder",
    metavar="DIR",
    required=False,
    type=PATH,
    help="The folder. Default: backup_folder in the settings.",
)
@click.option("--recipient", help="Encrypt for this age public key, or for those in this file.")
@click.option(
    "--keep",
    type=click.IntRange(min=1),
    help="How many backups to keep in DIR. Default: backup_keep in the settings.",
)
@json_option
@click.pass_context
def backup(
    context: click.Context,
    *,
    folder: Path | None,
    recipient: str | None,
    keep: int | None,
    json: bool,
) -> None:
    """Back up everything, whether or not a stack is running."""
    with command(context.obj, json=json) as (settings, output):
        from local2.cli.upkeep import backup as run

        run(settings, output, folder, recipient=recipient, keep=keep)


@upkeep.command()
@click.argument("folder", metavar="DIR", type=PATH, help="The folder that `backup` wrote to.")
@click.option("--generation", help="The name of a backup in DIR. Default: the newest.")
@click.option(
    "--data-dir", type=PATH, help="Where to restore it. Default: data_dir in the settings."
)
@click.option("--identity", type=PATH, help="The file with the age secret key that decrypts it.")
@click.option("--replace", is_flag=True, help="Move an existing memory aside.")
@click.option("--dry-run", is_flag=True, help="Only read the whole backup.")
@json_option
@click.pass_context
def restore(  # noqa: PLR0913 - one parameter an option
    context: click.Context,
    *,
    folder: Path,
    generation: str | None,
    data_dir: Path | None,
    identity: Path | None,
    replace: bool,
    dry_run: bool,
    json: bool,
) -> None:
    """Restore a backup. No stack may be running."""
    with command(context.obj, json=json) as (settings, output):
        from local2.cli.restore import restore as run

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
@json_option
def version(*, json: bool) -> None:
    """Print the version."""
    output = Output(json=json)
    output.data({"version": __version__})
    output.text(__version__)


dead_letters = click.Group(
    "dead-letters",
    help="List, show, retry or drop messages that could not be read.",
    no_args_is_help=True,
)

numbers_argument = click.argument(
    "numbers", metavar="NUMBER…", nargs=-1, type=int, help="Their numbers, as listed."
)
all_option = click.option("--all", "every", is_flag=True, help="All dead letters.")


@dead_letters.command("list")
@json_option
@click.pass_context
def list_dead_letters(context: click.Context, *, json: bool) -> None:
    """List the messages that could not be read, and why."""
    with command(context.obj, json=json) as (settings, output):
        from local2.cli.dead_letters import list_letters

        list_letters(settings, output)


@dead_letters.command("show")
@click.argument("number", metavar="NUMBER", type=int, help="Its number, as listed.")
@json_option
@click.pass_context
def show_dead_letter(context: click.Context, *, number: int, json: bool) -> None:
    """Show one dead letter with its message."""
    with command(context.obj, json=json) as (settings, output):
        from local2.cli.dead_letters import show

        show(settings, output, number)


@dead_letters.command("retry")
@numbers_argument
@all_option
@user_option
@json_option
@click.pass_context
def retry_dead_letters(
    context: click.Context, *, numbers: tuple[int, ...], every: bool, user: str | None, json: bool
) -> None:
    """Publish messages again, and drop their dead letters once JetStream has stored them.

    With accounts, name the user with --user, because dead letters contain no tokens.
    """
    with command(context.obj, json=json) as (settings, output):
        from local2.cli.dead_letters import retry

        retry(settings, output, numbers, user, every=every)


@dead_letters.command("drop")
@numbers_argument
@all_option
@json_option
@click.pass_context
def drop_dead_letters(
    context: click.Context, *, numbers: tuple[int, ...], every: bool, json: bool
) -> None:
    """Remove dead letters for good."""
    with command(context.obj, json=json) as (settings, output):
        from local2.cli.dead_letters import drop

        drop(settings, output, numbers, every=every)
