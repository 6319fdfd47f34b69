"""`ingest` until acknowledged, and until read and indexed, against the same writes by hand.

The writes by hand are the same rows in the same tables, with their full text, features and tasks,
but no text is analysed and no id is computed (`echo.py`). For the indexing-only side, the messages
of such conversations have no extraction task; like ingested ones, they are embedded together with
the previous message. Extraction produces facts, which are embedded, too.
"""

import asyncio
import itertools
import tempfile
from collections.abc import Awaitable, Callable, Iterable, Iterator
from functools import partial
from pathlib import Path

from harness.chat import messages
from harness.client import USER, Asker, alternating, request_of, seconds, stack_and_echo
from harness.fill import EVENT_TIME, write_records
from harness.processes import data_dir
from harness.report import Figure, a_second, ratio, run
from local2.ledger.records import NewRecord
from local2.memory.intake.conversations import Conversation, records_of
from local2.protocol.envelope import decode
from local2.protocol.lenient.messages import messages_of
from local2.protocol.memory_tools import Ingest
from local2.protocol.payloads import ToolRequest

CONVERSATIONS = 8
LENGTH = 20
"""Messages in a conversation, half of them the user's."""
BLOCKS = 3
BACKLOG = 400
STATEMENTS = ("I like {}.", "I live in {}.", "My dog is called {}.", "We decided to use {}.")
EVERY = 3
"""One in this many of the user's messages states a fact."""

Requests = Iterator[bytes]
Send = Callable[[bytes], Awaitable[object]]


async def measure() -> list[Figure]:
    with tempfile.TemporaryDirectory() as folder:
        async with stack_and_echo(Path(folder)) as asker:
            requests = conversations(seed=1)
            size = len(await asker.tool("ingest", next(requests)))
            alone = await acknowledged(asker, requests, size, in_flight=1)
            together = await acknowledged(asker, requests, size, in_flight=16)
            await asker.all_indexed()
            whole = await end_to_end(asker, requests, Path(folder))
    return [*alone, *together, *whole]


def conversations(*, seed: int) -> Requests:
    """Return requests that each ingest one new conversation."""
    for number in itertools.count():
        texts = messages(LENGTH, seed=seed * 10_000 + number)
        yield request_of(
            session_id=f"conversation {number}",
            messages=[
                {
                    "id": f"{number}.{n}",
                    "role": "assistant" if n % 2 else "user",
                    "content": text if n % (2 * EVERY) else stating(n + number, text),
                }
                for n, text in enumerate(texts)
            ],
        )


def stating(number: int, text: str) -> str:
    """Return a statement with a name from the text."""
    name = max(text.split(), key=len).strip(".").capitalize()
    return f"{STATEMENTS[number % len(STATEMENTS)].format(name)} {text}"


async def acknowledged(
    asker: Asker, requests: Requests, size: int, *, in_flight: int
) -> list[Figure]:
    """Return messages a second, alternating with an echo that first commits the same messages.

    Each side starts when the stack is idle.
    """

    async def idle(send: Send) -> float:
        await asker.all_indexed()
        return await rate(requests, send, in_flight)

    ours, base = await alternating(
        BLOCKS,
        partial(idle, partial(asker.tool, "ingest")),
        partial(idle, lambda data: asker.insert_messages(data, size)),
    )
    about = f"{in_flight} in flight: ingest / the same writes by hand"
    name = f"in_flight_{in_flight}"
    return [
        ratio(f"{name}_ratio", about, ours, base, at_least=0.5),
        a_second(f"{name}_per_second", "messages acknowledged", ours),
        a_second(f"{name}_by_hand_per_second", "messages written by hand", base),
    ]


async def rate(requests: Requests, send: Send, in_flight: int) -> float:
    """Return messages a second."""
    prepared = iter(list(itertools.islice(requests, CONVERSATIONS)))

    async def some() -> None:
        for request in prepared:
            await send(request)

    together = asyncio.gather(*(some() for _ in range(in_flight)))
    return CONVERSATIONS * LENGTH / await seconds(together)


async def end_to_end(asker: Asker, requests: Requests, folder: Path) -> list[Figure]:
    """Return messages a second until read and indexed, against a backlog that is only indexed."""
    ours, base = [], []
    for _ in range(2):
        count = BACKLOG // LENGTH
        prepared = list(itertools.islice(requests, count))

        async def ingested(prepared: list[bytes] = prepared) -> None:
            await asyncio.gather(*(asker.tool("ingest", request) for request in prepared))
            await asker.all_indexed()

        ours.append(count * LENGTH / await seconds(ingested()))
        await write_records(data_dir(folder), unread(itertools.islice(requests, count)))
        base.append(BACKLOG / await seconds(asker.index_backlog()))
    return [
        ratio("end_to_end_ratio", "read and indexed / only indexed", ours, base, at_least=0.7),
        a_second("end_to_end_per_second", "messages until read and indexed", ours),
        a_second("indexed_per_second", "messages only indexed", base),
    ]


def unread(requests: Iterable[bytes]) -> list[NewRecord]:
    """Return the records of these conversations, without extraction tasks."""
    asked = [decode(request, ToolRequest[Ingest]).payload.args for request in requests]
    return [
        record
        for args in asked
        for record in records_of(
            Conversation(
                messages=[one for each in args.messages for one in messages_of(each, "messages")],
                owner=USER,
                agent="benchmark",
                session_id=args.session_id,
                now=EVENT_TIME,
            )
        )
    ]


def main() -> None:
    run(__doc__, measure)
