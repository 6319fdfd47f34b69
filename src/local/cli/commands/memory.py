"""Commands on what is remembered."""

from pathlib import Path
from typing import Annotated

import typer

from local.cli.commands import Agent, Json, User
from local.cli.output import command
from local.protocol.envelope import Sender
from local.protocol.memories import Owning, Scope

group = typer.Typer()


@group.command()
def recall(  # noqa: PLR0913, PLR0917 - one parameter an option
    context: typer.Context,
    text: str,
    top_k: Annotated[int, typer.Option(help="How many memories at most, up to 20.")] = 5,
    scope: Annotated[Scope, typer.Option(help="Whose memories.")] = "any",
    kind: Annotated[
        list[str] | None,
        typer.Option(
            help="chat_message, tool_output, document_chunk, fact or note; several are fine."
        ),
    ] = None,
    since: Annotated[str | None, typer.Option(help="From this date or time on, in UTC.")] = None,
    until: Annotated[str | None, typer.Option(help="Up to this date or time, in UTC.")] = None,
    as_of: Annotated[
        str | None, typer.Option(help="As at this date or time: nothing later is there yet.")
    ] = None,
    min_relevance: Annotated[
        float, typer.Option(help="Leave out what scores less than this share of the best, 0 to 1.")
    ] = 0.0,
    rerank: Annotated[
        bool, typer.Option("--rerank/--no-rerank", help="Let a reranker decide, if there is one.")
    ] = True,
    synthesize: Annotated[
        bool, typer.Option("--synthesize", help="Also answer from what was found.")
    ] = False,
    explain: Annotated[
        bool, typer.Option("--explain", help="Also show what each score is made of.")
    ] = False,
    session: Annotated[str | None, typer.Option(help="The session that is going on.")] = None,
    user: User = None,
    agent: Agent = "cli",
    json: Json = False,
) -> None:
    """Search everything remembered."""
    with command(context.obj, json=json) as (settings, output):
        from local.cli.recall import search

        args = {
            "query": text,
            "top_k": top_k,
            "scope": scope,
            "source_kinds": kind or None,
            "since": since,
            "until": until,
            "as_of": as_of,
            "min_relevance": min_relevance,
            "enable_rerank": rerank,
            "synthesize": synthesize,
            "explain": explain,
        }
        caller = Sender(agent=agent, user=user, session_id=session)
        search(settings, output, args, caller)


@group.command()
def history(
    context: typer.Context,
    topic_or_id: Annotated[str, typer.Argument(help="A topic, or the id of any version.")],
    user: User = None,
    agent: Agent = "cli",
    json: Json = False,
) -> None:
    """Show every version of a fact, an answer or a message, newest first."""
    with command(context.obj, json=json) as (settings, output):
        from local.cli.recall import history as run

        run(settings, output, topic_or_id, Sender(agent=agent, user=user))


@group.command()
def relations(
    context: typer.Context,
    memory_id: Annotated[str, typer.Argument(metavar="ID", help="The memory's id.")],
    user: User = None,
    agent: Agent = "cli",
    json: Json = False,
) -> None:
    """Show what bears on a memory, and what it bears on."""
    with command(context.obj, json=json) as (settings, output):
        from local.cli.recall import relations as run

        run(settings, output, memory_id, Sender(agent=agent, user=user))


@group.command()
def audit(  # noqa: PLR0913, PLR0917 - one parameter an option
    context: typer.Context,
    record_id: Annotated[
        str | None, typer.Argument(metavar="ID", help="Of this memory only.")
    ] = None,
    run: Annotated[str | None, typer.Option(help="Of this run only.")] = None,
    limit: Annotated[int, typer.Option(min=1, help="How many entries at most.")] = 100,
    user: User = None,
    agent: Agent = "cli",
    json: Json = False,
) -> None:
    """Show which memories were changed by whom, when and why, newest first."""
    with command(context.obj, json=json) as (settings, output):
        from local.cli.changes import audit as show

        caller = Sender(agent=agent, user=user)
        show(settings, output, caller, record_id=record_id, run=run, limit=limit)


@group.command()
def consolidate(
    context: typer.Context,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Only list what would be changed.")
    ] = False,
    user: User = None,
    agent: Agent = "cli",
    json: Json = False,
) -> None:
    """Archive stale facts, merge duplicates, replace what was contradicted; undo takes it back."""
    with command(context.obj, json=json) as (settings, output):
        from local.cli.changes import consolidate as start

        start(settings, output, Sender(agent=agent, user=user), dry_run=dry_run)


@group.command()
def undo(
    context: typer.Context,
    run: Annotated[str, typer.Argument(metavar="RUN", help="As consolidate or audit says.")],
    user: User = None,
    agent: Agent = "cli",
    json: Json = False,
) -> None:
    """Take back what a run of consolidate changed."""
    with command(context.obj, json=json) as (settings, output):
        from local.cli.changes import undo as take_back

        take_back(settings, output, run, Sender(agent=agent, user=user))


@group.command()
def ingest(  # noqa: PLR0913, PLR0917 - one parameter an option
    context: typer.Context,
    files: Annotated[list[Path], typer.Argument(help="JSON lines, one message each; - is stdin.")],
    session: Annotated[
        str | None, typer.Option(help="The session of the lines that name none.")
    ] = None,
    user: User = None,
    agent: Agent = "cli",
    allow_again: Annotated[
        bool, typer.Option("--allow-again", help="Also store what was forgotten on request.")
    ] = False,
    json: Json = False,
) -> None:
    """Store conversations word for word; sent again, only what is new or was edited."""
    with command(context.obj, json=json) as (settings, output):
        from local.cli.ingest import ingest as run

        caller = Sender(agent=agent, user=user)
        run(settings, output, files, caller, session=session, allow_again=allow_again)


@group.command()
def add_document(
    context: typer.Context,
    files: Annotated[list[Path], typer.Argument(help="Text or Markdown, in UTF-8.")],
    title: Annotated[str | None, typer.Option(help="Else the file's name.")] = None,
    source: Annotated[str | None, typer.Option(help="Else the file's full path.")] = None,
    json: Json = False,
) -> None:
    """Keep documents for everybody; those of the same source are replaced."""
    with command(context.obj, json=json) as (settings, output):
        from local.cli.add_document import add_document as run

        run(settings, output, files, title=title, source=source)


@group.command()
def export(  # noqa: PLR0913, PLR0917 - one parameter an option
    context: typer.Context,
    file: Annotated[Path, typer.Argument(help="Where to write JSON lines; - is stdout.")],
    scope: Annotated[
        Owning | None,
        typer.Option(help="Only --session, what belongs to --user or --agent, or is everybody's."),
    ] = None,
    vectors: Annotated[
        bool, typer.Option("--vectors", help="With the vectors, so that none is made anew.")
    ] = False,
    session: Annotated[str | None, typer.Option(help="The session, for that scope.")] = None,
    user: User = None,
    agent: Agent = "cli",
    json: Json = False,
) -> None:
    """Write everything that is remembered to a file: a backup, or a move."""
    with command(context.obj, json=json) as (settings, output):
        from local.cli.export import export as run
        from local.protocol.maintenance import ExportRequest

        caller = Sender(agent=agent, user=user, session_id=session)
        run(settings, output, file, ExportRequest(scope=scope, vectors=vectors), caller)


@group.command("import")
def import_(  # noqa: PLR0913, PLR0917 - one parameter an option
    context: typer.Context,
    file: Annotated[Path, typer.Argument(help="What `local2 export` wrote; - is stdin.")],
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Store nothing, and say what would be.")
    ] = False,
    user: User = None,
    agent: Agent = "cli",
    json: Json = False,
) -> None:
    """Add the contents of an export; imported again, it changes nothing."""
    with command(context.obj, json=json) as (settings, output):
        from local.cli.import_ import import_ as run

        run(settings, output, file, Sender(agent=agent, user=user), dry_run=dry_run)


@group.command()
def forget(  # noqa: PLR0913, PLR0917 - one parameter an option
    context: typer.Context,
    user: Annotated[
        str | None, typer.Option(help="Whose it is; with no other option, everything of theirs.")
    ] = None,
    session: Annotated[str | None, typer.Option(help="All that was said in this session.")] = None,
    topic: Annotated[str | None, typer.Option(help="Every version of this fact.")] = None,
    id_: Annotated[str | None, typer.Option("--id", help="The record of this id.")] = None,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Only say what would be erased.")
    ] = False,
    yes: Annotated[bool, typer.Option("--yes", help="Do not ask.")] = False,
    allow_again: Annotated[
        bool, typer.Option("--allow-again", help="A later import may store it again.")
    ] = False,
    json: Json = False,
) -> None:
    """Erase for good what a user said or stated, wherever it is; prints a receipt."""
    with command(context.obj, json=json) as (settings, output):
        from local.cli.changes import forget as run

        chosen = {"session_id": session, "topic": topic, "id": id_}
        args: dict[str, object] = {k: v for k, v in chosen.items() if v is not None}
        args |= {"allow_again": True} if allow_again else {}
        run(settings, output, args, user=user, dry_run=dry_run, yes=yes)
