"""Commands that search, show, change, store and transfer memories."""

from pathlib import Path
from typing import get_args

import click

from local2.cli.commands import PATH, agent_option, caller_of, json_option, user_option, yes_option
from local2.cli.output import command
from local2.protocol.memories import OwnerScope, Scope

group = click.Group()


@group.command()
@click.argument("query")
@click.option("--top-k", type=int, default=5, help="Maximum number of memories, up to 20.")
@click.option(
    "--scope", type=click.Choice(get_args(Scope)), default="any", help="Whose memories to search."
)
@click.option(
    "--source-kinds",
    multiple=True,
    help="chat_message, tool_output, document_chunk, fact or note. Repeatable.",
)
@click.option("--since", help="Only memories since this date or time, in UTC.")
@click.option("--until", help="Only memories until this date or time, in UTC.")
@click.option("--as-of", help="Search as of this date or time: leave out anything later.")
@click.option(
    "--min-relevance",
    type=float,
    default=0.0,
    help="Minimum score as a fraction of the best one, 0 to 1.",
)
@click.option("--rerank/--no-rerank", default=True, help="Use a reranker, if there is one.")
@click.option("--synthesize", is_flag=True, help="Also write an answer from the results.")
@click.option("--explain", is_flag=True, help="Also show the components of each score.")
@click.option("--session", help="The current session.")
@user_option
@agent_option
@json_option
@click.pass_context
def recall(  # noqa: PLR0913 - one parameter an option
    context: click.Context,
    *,
    query: str,
    top_k: int,
    scope: Scope,
    source_kinds: tuple[str, ...],
    since: str | None,
    until: str | None,
    as_of: str | None,
    min_relevance: float,
    rerank: bool,
    synthesize: bool,
    explain: bool,
    session: str | None,
    user: str | None,
    agent: str,
    json: bool,
) -> None:
    """Search everything remembered."""
    with command(context.obj, json=json) as (settings, output):
        from local2.cli.recall import search

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
@click.argument("topic_or_id", help="A topic, or the id of any version.")
@user_option
@agent_option
@json_option
@click.pass_context
def history(
    context: click.Context, *, topic_or_id: str, user: str | None, agent: str, json: bool
) -> None:
    """Show every version of a fact, an answer or a message, newest first."""
    with command(context.obj, json=json) as (settings, output):
        from local2.cli.recall import history as run

        run(settings, output, topic_or_id, caller_of(settings, user, agent))


@group.command()
@click.argument("memory_id", metavar="ID", help="The memory's id.")
@user_option
@agent_option
@json_option
@click.pass_context
def relations(
    context: click.Context, *, memory_id: str, user: str | None, agent: str, json: bool
) -> None:
    """Show the relations of a memory, in both directions."""
    with command(context.obj, json=json) as (settings, output):
        from local2.cli.recall import relations as run

        run(settings, output, memory_id, caller_of(settings, user, agent))


@group.command()
@click.argument("record_id", metavar="ID", required=False, help="Only changes of this memory.")
@click.option("--run", help="Only changes by this run of consolidate.")
@click.option("--limit", type=click.IntRange(min=1), default=100, help="Maximum number of entries.")
@user_option
@agent_option
@json_option
@click.pass_context
def audit(  # noqa: PLR0913 - one parameter an option
    context: click.Context,
    *,
    record_id: str | None,
    run: str | None,
    limit: int,
    user: str | None,
    agent: str,
    json: bool,
) -> None:
    """Show which memories were changed by whom, when and why, newest first."""
    with command(context.obj, json=json) as (settings, output):
        from local2.cli.changes import audit as show

        caller = caller_of(settings, user, agent)
        show(settings, output, caller, record_id=record_id, run=run, limit=limit)


@group.command()
@click.option("--dry-run", is_flag=True, help="Only list the changes.")
@user_option
@agent_option
@json_option
@click.pass_context
def consolidate(
    context: click.Context, *, dry_run: bool, user: str | None, agent: str, json: bool
) -> None:
    """Archive stale facts, merge duplicates and replace contradicted facts. See also undo."""
    with command(context.obj, json=json) as (settings, output):
        from local2.cli.changes import consolidate as start

        start(settings, output, caller_of(settings, user, agent), dry_run=dry_run)


@group.command()
@click.argument("run", metavar="RUN", help="The run, as consolidate or audit prints it.")
@user_option
@agent_option
@json_option
@click.pass_context
def undo(context: click.Context, *, run: str, user: str | None, agent: str, json: bool) -> None:
    """Undo the changes of a run of consolidate."""
    with command(context.obj, json=json) as (settings, output):
        from local2.cli.changes import undo as undo_run

        undo_run(settings, output, run, caller_of(settings, user, agent))


@group.command()
@click.argument(
    "files",
    nargs=-1,
    required=True,
    type=PATH,
    help="JSON lines with one message each; - is stdin.",
)
@click.option("--session", help="The session of lines that name none.")
@user_option
@agent_option
@click.option("--allow-again", is_flag=True, help="Also store messages that were forgotten.")
@json_option
@click.pass_context
def ingest(  # noqa: PLR0913 - one parameter an option
    context: click.Context,
    *,
    files: tuple[Path, ...],
    session: str | None,
    user: str | None,
    agent: str,
    allow_again: bool,
    json: bool,
) -> None:
    """Store conversations word for word; again, only new and edited messages are stored."""
    with command(context.obj, json=json) as (settings, output):
        from local2.cli.ingest import ingest as run

        caller = caller_of(settings, user, agent)
        run(settings, output, files, caller, session=session, allow_again=allow_again)


@group.command()
@click.argument("files", nargs=-1, required=True, type=PATH, help="Text or Markdown, in UTF-8.")
@click.option("--title", help="The title. Default: the file's name.")
@click.option("--source", help="The source. Default: the file's full path.")
@json_option
@click.pass_context
def add_document(
    context: click.Context,
    *,
    files: tuple[Path, ...],
    title: str | None,
    source: str | None,
    json: bool,
) -> None:
    """Store documents for everybody. A document replaces the earlier one of the same source."""
    with command(context.obj, json=json) as (settings, output):
        from local2.cli.add_document import add_document as run

        run(settings, output, files, title=title, source=source)


@group.command()
@click.argument("file", type=PATH, help="Where to write JSON lines; - is stdout.")
@click.option(
    "--scope",
    type=click.Choice(get_args(OwnerScope)),
    help="Only memories of --session, --user or --agent, or those of the whole tenant.",
)
@click.option("--vectors", is_flag=True, help="Include vectors, so that none is computed again.")
@click.option("--session", help="The session, with --scope session.")
@user_option
@agent_option
@json_option
@click.pass_context
def export(  # noqa: PLR0913 - one parameter an option
    context: click.Context,
    *,
    file: Path,
    scope: OwnerScope | None,
    vectors: bool,
    session: str | None,
    user: str | None,
    agent: str,
    json: bool,
) -> None:
    """Write all memories to a file, as a backup or to move them."""
    with command(context.obj, json=json) as (settings, output):
        from local2.cli.export import export as run
        from local2.protocol.maintenance import ExportRequest

        caller = caller_of(settings, user, agent, session)
        run(settings, output, file, ExportRequest(scope=scope, vectors=vectors), caller)


@group.command("import")
@click.argument("file", type=PATH, help="A file from `local2 export`; - is stdin.")
@click.option("--dry-run", is_flag=True, help="Store nothing; only say what would be stored.")
@user_option
@agent_option
@json_option
@click.pass_context
def import_(  # noqa: PLR0913 - one parameter an option
    context: click.Context, *, file: Path, dry_run: bool, user: str | None, agent: str, json: bool
) -> None:
    """Import an export. Importing it again changes nothing."""
    with command(context.obj, json=json) as (settings, output):
        from local2.cli.import_ import import_ as run

        run(settings, output, file, caller_of(settings, user, agent), dry_run=dry_run)


@group.command()
@click.option("--user", help="The user. Without another option, everything of this user is erased.")
@click.option("--session", help="Erase everything said in this session.")
@click.option("--topic", help="Erase every version of the fact under this key.")
@click.option("--id", "id_", help="Erase the record with this id.")
@click.option("--dry-run", is_flag=True, help="Only say what would be erased.")
@yes_option
@click.option("--allow-again", is_flag=True, help="Let a later import store it again.")
@json_option
@click.pass_context
def forget(  # noqa: PLR0913 - one parameter an option
    context: click.Context,
    *,
    user: str | None,
    session: str | None,
    topic: str | None,
    id_: str | None,
    dry_run: bool,
    yes: bool,
    allow_again: bool,
    json: bool,
) -> None:
    """Erase for good what a user said or stated, everywhere; print a receipt."""
    with command(context.obj, json=json) as (settings, output):
        from local2.cli.changes import forget as run

        chosen = {"session_id": session, "topic": topic, "id": id_}
        args: dict[str, object] = {k: v for k, v in chosen.items() if v is not None}
        args |= {"allow_again": True} if allow_again else {}
        run(settings, output, args, user=user, dry_run=dry_run, yes=yes)
