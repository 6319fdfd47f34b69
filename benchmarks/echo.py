"""What everything is compared with: a responder of bare nats-py, in a process of its own.

`bench.echo.<size>` is answered with that many bytes, and so is `bench.insert.<size>`, after the
request has been committed to a table of SQLite (WAL, synchronous=FULL), `bench.messages.<size>`
once each message of a conversation has, with a row of its own and a full-text index.
"""

import asyncio
import json
import signal
import sqlite3
import sys

import nats
import uvloop
from nats.aio.msg import Msg

ECHO = "bench.echo"
INSERT = "bench.insert"
MESSAGES = "bench.messages"


async def respond(url: str, database: str) -> None:
    connection = sqlite3.connect(database, isolation_level=None)
    connection.execute("PRAGMA journal_mode = WAL")
    connection.execute("PRAGMA synchronous = FULL")
    connection.execute("CREATE TABLE note (id INTEGER PRIMARY KEY, content BLOB NOT NULL)")
    connection.execute(
        "CREATE TABLE message (row INTEGER PRIMARY KEY, id TEXT UNIQUE, role, content)"
    )
    connection.execute(
        "CREATE VIRTUAL TABLE message_text USING fts5 (content, tokenize = 'porter')"
    )
    client = await nats.connect(url)

    async def echo(message: Msg) -> None:
        size = int(message.subject.rpartition(".")[2])
        await client.publish(message.reply, bytes(size))

    async def insert(message: Msg) -> None:
        connection.execute("INSERT INTO note (content) VALUES (?)", (message.data,))  # and commits
        await echo(message)

    async def insert_messages(message: Msg) -> None:
        messages = json.loads(message.data)["payload"]["args"]["messages"]
        connection.execute("BEGIN IMMEDIATE")
        for one in messages:
            values = (one["id"], one["role"], one["content"])
            row = connection.execute(
                "INSERT INTO message (id, role, content) VALUES (?, ?, ?)", values
            ).lastrowid
            connection.execute(
                "INSERT INTO message_text (rowid, content) VALUES (?, ?)", (row, one["content"])
            )
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


if __name__ == "__main__":
    uvloop.run(respond(*sys.argv[1:]))
