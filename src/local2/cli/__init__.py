"""The `local2` command, with its groups of commands in the order of `--help`."""

import os
from pathlib import Path

import click

from local2._version import __version__
from local2.cli.commands import PATH, GlobalOptions, LazyGroup, Listed
from local2.home import PRIVATE_UMASK

COMMANDS = {
    "up": Listed(
        "up",
        "Start the stack, with a chat if in a terminal, else as a service. Ctrl-C stops it.",
    ),
    "chat": Listed("talk", "Talk to a running stack."),
    "ask": Listed("talk", "Ask one question and print the answer."),
    "tools": Listed("talk", "List the tools on the bus."),
    "call": Listed(
        "talk", "Call one tool: `local2 call save_topic topic=user.name content=Richard`."
    ),
    "list": Listed("listing", "Look through everything remembered, the newest first."),
    "overview": Listed("listing", "Count what is remembered; list users, agents and sessions."),
    "growth": Listed("listing", "Count what is remembered of each day, by kinds."),
    "recall": Listed("recall", "Search everything remembered."),
    "explain": Listed(
        "explain", "Show why a question finds some memories, and not another one, by its id."
    ),
    "history": Listed(
        "recall", "Show every version of a fact, an answer or a message, newest first."
    ),
    "relations": Listed("recall", "Show the relations of a memory, in both directions."),
    "audit": Listed(
        "changes", "Show which memories were changed by whom, when and why, newest first."
    ),
    "consolidate": Listed(
        "changes",
        "Archive stale facts, merge duplicates and replace contradicted facts. See also undo.",
    ),
    "edit": Listed("changes", "Write a fact or a saved note anew. See also undo."),
    "retire": Listed("changes", "Retire facts and notes that no longer hold. See also undo."),
    "pin": Listed("changes", "Show facts among the first, without a question. See also undo."),
    "hide": Listed("changes", "Never recall memories again. See also undo."),
    "undo": Listed(
        "changes", "Undo the changes of a run of consolidate, edit, retire, pin or hide."
    ),
    "ingest": Listed(
        "ingest",
        "Store conversations word for word; again, only new and edited messages are stored.",
    ),
    "add-document": Listed(
        "add_document",
        "Store documents for everybody. A document replaces the earlier one of the same source.",
    ),
    "export": Listed("export", "Write all memories to a file, as a backup or to move them."),
    "import": Listed(
        "import_",
        "Import an export of local2, ChatGPT, Claude, mem0 or Hindsight, or documents; again, only "
        "what is new is stored. Exit with code 1 if anything was refused.",
    ),
    "forget": Listed(
        "changes",
        "Erase for good what a user said or stated, everywhere; print a receipt.",
    ),
    "mcp": Listed(
        "mcp",
        "Serve the memory over MCP to the client that starts this command, on stdin and stdout.",
    ),
    "serve": Listed("serve", "Serve the memory over HTTP on this machine, for any language."),
    "web": Listed("serve", "Serve the page for people, and HTTP, on this machine."),
    "hook": Listed("hooks"),
    "stories": Listed(
        "stories",
        "Play stories against live stacks in temporary folders; exit with code 1 if one fails.",
    ),
    "doctor": Listed("upkeep", "Check that everything works, and say how to repair what does not."),
    "retention": Listed(
        "upkeep", "List the retired memories whose content is to be deleted; nothing is changed."
    ),
    "reindex": Listed(
        "upkeep", "Rebuild the vector index from the ledger, whether or not a stack is running."
    ),
    "backup": Listed(
        "backup", "Back up everything, or read a backup whole, whether or not a stack is running."
    ),
    "restore": Listed("backup", "Restore a backup. No stack may be running."),
    "move": Listed(
        "move", "Move the memory from SQLite to PostgreSQL, or back. No stack may be running."
    ),
    "models": Listed("models", "Fetch models by name: a reranker that runs without a server."),
    "version": Listed("version", "Print the version."),
    "dead-letters": Listed(
        "dead_letters", "List, show, retry or drop messages that the memory could not store."
    ),
    "tasks": Listed("tasks", "List, retry or discard the work on records that failed repeatedly."),
    "tenants": Listed("tenants", "Manage accounts: tenants, their agents, keys and tokens."),
    "hooks": Listed(
        "hooks", "Hooks of coding agents, which store and recall memories automatically."
    ),
}


@click.group(
    cls=LazyGroup,
    listed=COMMANDS,
    no_args_is_help=True,
    context_settings={"show_default": True, "max_content_width": 120},
)
@click.option(
    "--config",
    type=PATH,
    help="Folder with bus.yaml, memory.yaml and so on. Default: config in --home.",
)
@click.option(
    "--home",
    type=PATH,
    help="The memory's folder. Default: the nearest one upwards with a private .local2, or else "
    "the user's own.",
)
@click.option("--tenant", help="Ask as this tenant, if the stack has accounts.")
@click.version_option(__version__, message="local2 %(version)s", help="Print the version and exit.")
@click.pass_context
def app(
    context: click.Context, *, config: Path | None, home: Path | None, tenant: str | None
) -> None:
    """Memory for agents on a NATS bus."""
    os.umask(PRIVATE_UMASK)  # files that commands write are private
    context.obj = GlobalOptions(config, tenant, home)
