"""Work that has failed on a running stack, for those who look at it."""

import json
import sqlite3
from contextlib import closing

from anyio.from_thread import start_blocking_portal

from commands import Served
from local2.bus.connection import connect
from local2.bus.streams import publish_durably

UNREADABLE = {"source": "critic", "payload": {"query": "What is gold?", "answer": None}}
"""A turn that becomes a dead letter."""


def publish_turns(running: Served, *messages: object) -> None:
    async def send() -> None:
        async with connect(running.url, name="test") as bus:
            for message in messages:
                await publish_durably(bus, "response.generation", json.dumps(message).encode())

    with start_blocking_portal() as portal:  # Playwright runs an event loop in this thread
        portal.call(send)


def fail_to_judge(running: Served, id_: str) -> None:
    """Give a fact a task `judge` that was refused."""
    ledger = running.folder / ".local2" / "ledger.sqlite3"
    with closing(sqlite3.connect(ledger)) as connection, connection:
        connection.execute(
            "INSERT INTO task (tenant, kind, record, place, state, attempts, error)"
            " SELECT tenant, 'judge', row, place, 'aside', 4, 'It was refused.'"
            " FROM record WHERE id = ?",
            (id_,),
        )
