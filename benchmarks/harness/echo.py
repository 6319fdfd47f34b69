"""The baseline of all comparisons: a responder of bare nats-py in a separate process.

`bench.echo.<size>` is answered with that many bytes. `bench.insert.<size>` is answered after the
request has been committed to an SQLite table (WAL, synchronous=FULL). `bench.messages.<size>` is
answered once each message of a conversation is in the ledger's own tables: its record with the
full text, its features and its tasks, one statement per table and one transaction per request.
Ids and features are made up, as long as real ones: only writing them is compared.
"""

import asyncio
import json
import signal
import sqlite3
import sys
from itertools import count
from uuid import uuid4

import nats
import uvloop
from nats.aio.msg import Msg

from local2.ledger.engines.sqlite.schema import SCHEMA

ECHO = "bench.echo"
INSERT = "bench.insert"
MESSAGES = "bench.messages"
RECORD = """
INSERT INTO record (row, tenant, id, kind, owner, role, source_ref, content, session_id, event_time,
                    source_class, stated_by, revision)
VALUES (:row, 'default', :id, 'chat_message', 'ada', :role, :source_ref, :content, :session,
        '2026-01-01T00:00:00.000+00:00', :source_class, 'ada', :row)
"""
FEATURE = """
INSERT INTO feature (record, stems, length, density, firsthand, timed, wish)
VALUES (:row, :content, :length, 0.5, 0, 0, 0)
"""
TASK = """
INSERT INTO task (tenant, kind, record, place)
SELECT tenant, :kind, row, place FROM record WHERE row = :row
"""


async def respond(url: str, database: str) -> None:
    connection = sqlite3.connect(database, isolation_level=None)
    connection.execute("PRAGMA journal_mode = WAL")
    connection.execute("PRAGMA synchronous = FULL")
    connection.executescript(SCHEMA.script)
    connection.execute("CREATE TABLE inserted (id INTEGER PRIMARY KEY, content BLOB NOT NULL)")
    numbers = count(1)
    client = await nats.connect(url)

    async def echo(message: Msg) -> None:
        size = int(message.subject.rpartition(".")[2])
        await client.publish(message.reply, bytes(size))

    async def insert(message: Msg) -> None:
        connection.execute(
            "INSERT INTO inserted (content) VALUES (?)", (message.data,)
        )  # and commits
        await echo(message)

    async def insert_messages(message: Msg) -> None:
        args = json.loads(message.data)["payload"]["args"]
        rows = [row_of(one, args["session_id"], next(numbers)) for one in args["messages"]]
        tasks = [{"kind": "index", "row": row["row"]} for row in rows]
        tasks += [{"kind": "extract", "row": row["row"]} for row in rows if row["role"] == "user"]
        connection.execute("BEGIN IMMEDIATE")
        connection.executemany(RECORD, rows)
        connection.executemany(FEATURE, rows)
        connection.executemany(TASK, tasks)
        connection.execute("COMMIT")
        await echo(message)

    await client.subscribe(f"{ECHO}.*", cb=echo)
    await client.subscribe(f"{MESSAGES}.*", cb=insert_messages)
    await client.subscribe(f"{INSERT}.*", cb=insert)
    stop = asyncio.Event()
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, stop.set)
    await stop.wait()
    await client.close()
    connection.close()


def row_of(message: dict[str, str], session: str, number: int) -> dict[str, object]:
    """Return a message's row in the tables."""
    return {
        "row": number,
        "id": uuid4().hex,
        "role": message["role"],
        "source_ref": message["id"],
        "content": message["content"],
        "session": session,
        "source_class": "stated" if message["role"] == "user" else "answered",
        "length": len(message["content"]),
    }


if __name__ == "__main__":
    uvloop.run(respond(*sys.argv[1:]))
