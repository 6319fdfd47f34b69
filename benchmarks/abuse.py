"""What abuse of a live stack costs everybody else: one section for each way of abusing it.

Text: whatever reads text, over 1 MB of its worst; then the same over the bus of a stack.
"""

import asyncio
import tempfile
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import NamedTuple

import msgspec
import nats
from nats.aio.client import Client

from local.bus.streams import turns_stream
from local.protocol import subjects
from processes import running_stack
from report import Figure, milliseconds, run
from worst import CASES, Case, repeated

SIZE = 1_000_000
SENT = 900_000
"""Characters of what goes over the bus, which carries 1 MB."""
BEAT = 0.001
LONGEST_STALL = 100.0
"""Milliseconds."""
TIMEOUT = 120.0


async def measure() -> list[Figure]:
    return [*await texts(), *await sent_texts()]


class Stalls:
    """The longest time for which something that should answer at once did not."""

    longest = 0.0

    @asynccontextmanager
    async def watching(self, beat: Callable[[], Awaitable[object]]) -> AsyncIterator[None]:
        """Take `beat` again and again while the context lasts."""

        async def watch() -> None:
            while True:
                begun = time.perf_counter()
                await beat()
                self.longest = max(self.longest, time.perf_counter() - begun)

        watching = asyncio.create_task(watch())
        await asyncio.sleep(BEAT)
        try:
            yield
            await asyncio.sleep(BEAT)
        finally:
            watching.cancel()


async def texts() -> list[Figure]:
    """In this process, each where it runs in a stack: on the loop, or in a thread beside it."""
    return [figure for case in CASES for figure in await worst_of(case)]


async def worst_of(case: Case) -> list[Figure]:
    """Of all its texts: how long each took, and what the loop stalled meanwhile."""
    took, stalled = [], []
    for unit in case.made_of:
        text, stalls = repeated(unit, SIZE), Stalls()
        async with stalls.watching(lambda: asyncio.sleep(BEAT)):
            begun = time.perf_counter()
            if case.on_loop:
                case.work(text)
            else:
                await asyncio.to_thread(case.work, text)
            took.append(time.perf_counter() - begun)
        stalled.append(stalls.longest)
    return told(case.name, took, stalled)


def told(name: str, took: Sequence[float], stalled: Sequence[float]) -> list[Figure]:
    key = "_".join(name.replace("'", "").replace(",", "").split())
    return [
        milliseconds(f"{key}_ms", f"{name}: time", [max(took)]),
        milliseconds(f"{key}_stall_ms", "   longest stall", [max(stalled)], at_most=LONGEST_STALL),
    ]


class Sent(NamedTuple):
    """Something that goes to a stack; `answered` is a request, else it is a turn."""

    name: str
    subject: str
    payload: dict[str, object]
    answered: bool = True


def sent() -> list[Sent]:
    text = repeated("I moved from Bern to Basel in May, and my name is Ada. ", SENT)
    calls = [{"id": f"c{n}", "name": "weigh", "content": f"{n} g"} for n in range(SENT // 50)]
    messages = [{"role": "user", "content": f"Number {n}"} for n in range(10_000)]
    turn, asked = subjects.RESPONSE_GENERATION, subjects.tool_request
    return [
        Sent("a turn", turn, {"query": "Where?", "answer": text}, answered=False),
        Sent("a turn of one word", turn, {"query": "Where?", "answer": "a" * SENT}, answered=False),
        Sent("a turn of accents", turn, {"query": "?", "answer": "\u0301\u0316" * (SENT // 4)},
             answered=False),
        Sent("a turn of calls", turn, {"query": "?", "answer": "!", "tool_calls": calls},
             answered=False),
        Sent("a garbled turn", turn, {"query": None, "answer": text}, answered=False),
        Sent("a query", subjects.QUERY_RECEIVED, {"query": f"Could you remember {text}"}),
        Sent("save_memory", asked("save_memory"), {"args": {"content": text[:65_536]}}),
        Sent("search_memory", asked("search_memory"), {"args": {"query": text[:4_096]}}),
        Sent("recall", asked("recall"), {"args": {"query": text[:4_096]}}),
        Sent("recall, refused", asked("recall"), {"args": {"query": text}}),
        Sent("ingest, one message", asked("ingest"),
             {"args": {"messages": [{"role": "user", "content": text}]}}),
        Sent("ingest, 10,000", asked("ingest"), {"args": {"messages": messages}}),
        Sent("add_document", asked("add_document"),
             {"args": {"content": text[:800_000], "title": "A"}}),
        Sent("add_document, a list", asked("add_document"),
             {"args": {"content": "* a\n" * (SENT // 8), "title": "B"}}),
    ]  # fmt: skip


async def sent_texts() -> list[Figure]:
    """To a stack: how long until each is handled, and the longest wait of a ping meanwhile."""
    with tempfile.TemporaryDirectory() as name:
        async with running_stack(Path(name)) as url:
            client = await nats.connect(url)
            try:
                return [figure for one in sent() for figure in await handled(client, one)]
            finally:
                await client.close()


async def handled(client: Client, one: Sent) -> list[Figure]:
    stalls = Stalls()
    data = msgspec.json.encode({"user": "ada", "session_id": "s1", "payload": one.payload})

    async def ping() -> None:
        await client.request(subjects.discovery("PING", "memory_agent"), b"", timeout=TIMEOUT)
        await asyncio.sleep(BEAT)

    async with stalls.watching(ping):
        begun = time.perf_counter()
        if one.answered:
            await client.request(one.subject, data, timeout=TIMEOUT)
        else:
            await client.jetstream().publish(one.subject, data)
            while await waiting_turns(client):  # noqa: ASYNC110 - another process takes them
                await asyncio.sleep(BEAT * 10)
        took = time.perf_counter() - begun
    return told(f"to a stack, {one.name}", [took], [stalls.longest])


async def waiting_turns(client: Client) -> int:
    return (await client.jsm().stream_info(turns_stream("default"))).state.messages


if __name__ == "__main__":
    run(__doc__, measure)
