"""`local2 move`: copy the memory from SQLite to PostgreSQL, or back, and compare both."""

import click
from rich.table import Table

from local2.cli.answers import progress
from local2.cli.commands import command
from local2.cli.output import FAILED, Output, shown
from local2.logs import logging_to
from local2.settings import Settings
from local2.stack.moving import move_memory

SHOWN_HASH = 12
"""Number of characters of a hash in the table."""
TO_POSTGRESQL = (
    "To use it, set `ledger` in config/memory.yaml to the URL that you named. PostgreSQL keeps the "
    "vectors and searches them; Chroma's folder is not used any more, and may be deleted."
)
TO_FILES = (
    "To use it, remove `ledger` from config/memory.yaml; `data_dir` there is the folder that you "
    "named. At the next start, Chroma's index is filled from the vectors in the ledger: nothing is "
    "embedded again, unless the settings choose another embedder."
)


@command()
@click.option(
    "--to",
    required=True,
    metavar="TARGET",
    help="A database (postgresql://…); if the ledger is one, a folder for files, such as .local2.",
)
async def move(settings: Settings, output: Output, *, to: str) -> None:
    with logging_to(settings.memory.data_dir / "logs" / "move.log"), progress(output) as bar:
        task = bar.add_task("Opening", total=None)

        def advance(what: str, done: int, total: int) -> None:
            bar.update(task, description=what, completed=done, total=total)

        found = await move_memory(settings, to, advance)
    output.data(found)
    moved = found.moved
    table = Table("Table", "Rows", "In the target", "Hash", "Finding")
    for rows in moved.tables:
        hashes = rows.hash[:SHOWN_HASH]
        if rows.hash != rows.target_hash:
            hashes += f", {rows.target_hash[:SHOWN_HASH]}"
        cells = rows.name, f"{rows.rows:,}", f"{rows.target_rows:,}", hashes
        table.add_row(*map(shown, cells), "equal" if rows.is_equal else "[red]differs[/red]")
    output.table(table)
    if not moved.is_equal:
        differing = ", ".join(rows.name for rows in moved.tables if not rows.is_equal)
        if moved.was_whole:
            output.failure(
                f"{found.target} held this memory before, and one of the two has been changed "
                f"since ({differing}). Nothing was copied. To move it again, name a new database, "
                "or move ledger.sqlite3 and ledger.tally out of the folder."
            )
        else:
            output.failure(
                f"The source was changed while it was moved ({differing}), and no stack opens the "
                "target. Delete the target, create it anew, and move again."
            )
        raise click.exceptions.Exit(FAILED)
    count = sum(rows.rows for rows in moved.tables)
    before = f"{found.target} held all of it before." if moved.was_whole else "All is equal."
    output.text(
        f"{count:,} rows of {found.source} are in {found.target}. {before} The source is unchanged."
    )
    output.text(TO_FILES if settings.memory.ledger else TO_POSTGRESQL)
