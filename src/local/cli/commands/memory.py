"""Commands that search, show, change, store and transfer memories."""

from pathlib import Path
from typing import Annotated

import typer

from local.cli.commands import Agent, Json, User, caller_of
from local.cli.output import command
from local.protocol.memories import OwnerScope, Scope

group = typer.Typer()


@group.command()
def recall(  # noqa: PLR0913, PLR0917 - one parameter an option
    context: typer.Context,
    query: str,
    top_k: Annotated[int, typer.Option(help="Maximum number of memories, up to 20.")] = 5,
    scope: Annotated[Scope, typer.Option(help="Whose memories to search.")] = "any",
    source_kinds: Annotated[
        list[str] | None,
        typer.Option(help="chat_message, tool_output, document_chunk, fact or note. Repeatable."),
    ] = None,
    since: Annotated[
        str | None, typer.Option(help="Only memories since this date or time, in UTC.")
    ] = None,
    until: Annotated[
        str | None, typer.Option(help="Only memories until this date or time, in UTC.")
    ] = None,
    as_of: Annotated[
        str | None, typer.Option(help="Search as of this date or time: leave out anything later.")
    ] = None,
    min_relevance: Annotated[
        float, typer.Option(help="Minimum score as a fraction of the best one, 0 to 1.")
    ] = 0.0,
    rerank: Annotated[
        bool, typer.Option("--rerank/--no-rerank", help="Use a reranker, if there is one.")
    ] = True,
    synthesize: Annotated[
        bool, typer.Option("--synthesize", help="Also write an answer from the results.")
    ] = False,
    explain: Annotated[
        bool, typer.Option("--explain", help="Also show the components of each score.")
    ] = False,
    session: Annotated[str | None, typer.Option(help="The current session.")] = None,
    user: User = None,
    agent: Agent = "cli",
    json: Json = False,
) -> None:
    """Search everything remembered."""
    with command(context.obj, json=json) as (settings, output):
        from local.cli.recall import search

        args = {
            "query": query,
            "top_k": top_k,
            "scope": scope,
            "source_kinds": source_kinds or None,
            "since": since,
            "until": until,
            "as_of": as_of,
            "min_relevance": min_relevance,
            "enable_rerank": rerank,
            "synthesize": synthesize,
            "explain": explain,
        }
        caller = caller_of(settings, user, agent, session)
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

        run(settings, output, topic_or_id, caller_of(settings, user, agent))


@group.command()
def relations(
    context: typer.Context,
    memory_id: Annotated[str, typer.Argument(metavar="ID", help="The memory's id.")],
    user: User = None,
    agent: Agent = "cli",
    json: Json = False,
) -> None:
    """Show the relations of a memory, in both directions."""
    with command(context.obj, json=json) as (settings, output):
        from local.cli.recall import relations as run

        run(settings, output, memory_id, caller_of(settings, user, agent))


@group.command()
def audit(  # noqa: PLR0913, PLR0917 - one parameter an option
    context: typer.Context,
    record_id: Annotated[
        str | None, typer.Argument(metavar="ID", help="Only changes of this memory.")
    ] = None,
    run: Annotated[
        str | None, typer.Option(help="Only changes by this run of consolidate.")
    ] = None,
    limit: Annotated[int, typer.Option(min=1, help="Maximum number of entries.")] = 100,
    user: User = None,
    agent: Agent = "cli",
    json: Json = False,
) -> None:
    """Show which memories were changed by whom, when and why, newest first."""
    with command(context.obj, json=json) as (settings, output):
        from local.cli.changes import audit as show

        caller = caller_of(settings, user, agent)
        show(settings, output, caller, record_id=record_id, run=run, limit=limit)


@group.command()
def consolidate(
    context: typer.Context,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only list the changes.")] = False,
    user: User = None,
    agent: Agent = "cli",
    json: Json = False,
) -> None:
    """Archive stale facts, merge duplicates and replace contradicted facts. See also undo."""
    with command(context.obj, json=json) as (settings, output):
        from local.cli.changes import consolidate as start

        start(settings, output, caller_of(settings, user, agent), dry_run=dry_run)


@group.command()
def undo(
    context: typer.Context,
    run: Annotated[
        str, typer.Argument(metavar="RUN", help="The run, as consolidate or audit prints it.")
    ],
    user: User = None,
    agent: Agent = "cli",
    json: Json = False,
) -> None:
    """Undo the changes of a run of consolidate."""
    with command(context.obj, json=json) as (settings, output):
        from local.cli.changes import undo as undo_run

        undo_run(settings, output, run, caller_of(settings, user, agent))


@group.command()
def ingest(  # noqa: PLR0913, PLR0917 - one parameter an option
    context: typer.Context,
    files: Annotated[
        list[Path], typer.Argument(help="JSON lines with one message each; - is stdin.")
    ],
    session: Annotated[
        str | None, typer.Option(help="The session of lines that name none.")
    ] = None,
    user: User = None,
    agent: Agent = "cli",
    allow_again: Annotated[
        bool, typer.Option("--allow-again", help="Also store messages that were forgotten.")
    ] = False,
    json: Json = False,
) -> None:
    """Store conversations word for word; again, only new and edited messages are stored."""
    with command(context.obj, json=json) as (settings, output):
        from local.cli.ingest import ingest as run

        caller = caller_of(settings, user, agent)
        run(settings, output, files, caller, session=session, allow_again=allow_again)


@group.command()
def add_document(
    context: typer.Context,
    files: Annotated[list[Path], typer.Argument(help="Text or Markdown, in UTF-8.")],
    title: Annotated[str | None, typer.Option(help="The title. Default: the file's name.")] = None,
    source: Annotated[
        str | None, typer.Option(help="The source. Default: the file's full path.")
    ] = None,
    json: Json = False,
) -> None:
    """Store documents for everybody. A document replaces the earlier one of the same source."""
    with command(context.obj, json=json) as (settings, output):
        from local.cli.add_document import add_document as run

        run(settings, output, files, title=title, source=source)


@group.command()
def export(  # noqa: PLR0913, PLR0917 - one parameter an option
    context: typer.Context,
    file: Annotated[Path, typer.Argument(help="Where to write JSON lines; - is stdout.")],
    scope: Annotated[
        OwnerScope | None,
        typer.Option(
            help="Only memories of --session, --user or --agent, or those of the whole tenant."
        ),
    ] = None,
    vectors: Annotated[
        bool, typer.Option("--vectors", help="Include vectors, so that none is computed again.")
    ] = False,
    session: Annotated[str | None, typer.Option(help="The session, with --scope session.")] = None,
    user: User = None,
    agent: Agent = "cli",
    json: Json = False,
) -> None:
    """Write all memories to a file, as a backup or to move them."""
    with command(context.obj, json=json) as (settings, output):
        from local.cli.export import export as run
        from local.protocol.maintenance import ExportRequest

        caller = caller_of(settings, user, agent, session)
        run(settings, output, file, ExportRequest(scope=scope, vectors=vectors), caller)


@group.command("import")
def import_(  # noqa: PLR0913, PLR0917 - one parameter an option
    context: typer.Context,
    file: Annotated[Path, typer.Argument(help="A file from `local2 export`; - is stdin.")],
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Store nothing; only say what would be stored.")
    ] = False,
    user: User = None,
    agent: Agent = "cli",
    json: Json = False,
) -> None:
    """Import an export. Importing it again changes nothing."""
    with command(context.obj, json=json) as (settings, output):
        from local.cli.import_ import import_ as run

        run(settings, output, file, caller_of(settings, user, agent), dry_run=dry_run)


@group.command()
def forget(  # noqa: PLR0913, PLR0917 - one parameter an option
    context: typer.Context,
    user: Annotated[
        str | None,
        typer.Option(help="The user. Without another option, everything of this user is erased."),
    ] = None,
    session: Annotated[
        str | None, typer.Option(help="Erase everything said in this session.")
    ] = None,
    topic: Annotated[
        str | None, typer.Option(help="Erase every version of the fact under this key.")
    ] = None,
    id_: Annotated[str | None, typer.Option("--id", help="Erase the record with this id.")] = None,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Only say what would be erased.")
    ] = False,
    yes: Annotated[bool, typer.Option("--yes", help="Do not ask for confirmation.")] = False,
    allow_again: Annotated[
        bool, typer.Option("--allow-again", help="Let a later import store it again.")
    ] = False,
    json: Json = False,
) -> None:
    """Erase for good what a user said or stated, everywhere; print a receipt."""
    with command(context.obj, json=json) as (settings, output):
        from local.cli.changes import forget as run

        chosen = {"session_id": session, "topic": topic, "id": id_}
        args: dict[str, object] = {k: v for k, v in chosen.items() if v is not None}
        args |= {"allow_again": True} if allow_again else {}
        run(settings, output, args, user=user, dry_run=dry_run, yes=yes)
