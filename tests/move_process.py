"""A move in a process that kills itself after some batches."""

import asyncio
import os
import signal
from pathlib import Path
from typing import Any
from unittest.mock import patch

from local2.ledger import engines
from local2.ledger.engines.postgres.database import Database as PostgresDatabase
from local2.ledger.engines.postgres.tables import Tables as PostgresTables
from local2.ledger.engines.sqlite.database import Database as SqliteDatabase
from local2.ledger.engines.sqlite.schema import SCHEMA
from local2.ledger.engines.sqlite.tables import Tables as SqliteTables
from local2.ledger.moving import Moved, move


async def move_between(source: str, target: str) -> Moved:
    """Move a memory between a file (its path) and a database (its URL)."""
    to_database = target.startswith("postgresql:")
    file, url = (source, target) if to_database else (target, source)
    schema = SCHEMA._replace(unfinished=not to_database)
    async with (
        SqliteDatabase.open(Path(file), schema) as here,
        PostgresDatabase.open(url, unfinished=to_database) as there,
    ):
        if to_database:
            return await move(here, there, lambda *_: None)
        return await move(there, here, lambda *_: None)


def move_and_be_killed(source: str, target: str, batches: int) -> None:
    """Move a memory in batches of four rows; SIGKILL ends this process inside of a batch."""
    added = 0

    def add(kind: type[Any]) -> Any:
        unpatched = kind.add

        def add_or_die(*args: Any, **kwargs: Any) -> None:
            nonlocal added
            unpatched(*args, **kwargs)
            added += 1
            if added > batches:
                os.kill(os.getpid(), signal.SIGKILL)

        return patch.object(kind, "add", add_or_die)

    with add(SqliteTables), add(PostgresTables), patch.object(engines, "MOVED_ROWS", 4):
        asyncio.run(move_between(source, target))
