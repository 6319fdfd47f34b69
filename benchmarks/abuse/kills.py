"""Kills: a process of the stack ends by SIGKILL while others save."""

import asyncio
import os
import signal
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from functools import partial
from itertools import count

from abuse.floods import succeeded
from abuse.target import Abuse, Claim, Target, envelope, turn
from harness.client import Asker
from harness.footprint import NATS_SERVER, VECTOR_WORKER
from local2.protocol import subjects

WORKER_KILLS = 5
WRITERS = 8
SAVE_INTERVAL = 0.1
"""Seconds between the saves of one writer: some eighty a second in all."""
MAX_SAVES = 5_000
"""Maximum number of saves, in case a kill takes long."""
LOAD_SECONDS_BEFORE = 1.0
LOAD_SECONDS_AFTER = 2.0
"""Seconds of load before a kill, and after the killed process answers again."""
ANSWER_TIMEOUT = 2.0
"""Seconds a writer waits for an answer; an answer lost with a process never arrives."""
PATIENCE = 60.0
POLL = 0.05


class Load:
    """What is written while something is killed, and which of it was acknowledged."""

    def __init__(self, target: Target, user: str, *, with_turns: bool) -> None:
        self._target = target
        self._user = user
        self._with_turns = with_turns
        self._numbers = count()
        self._done = 0
        self._notes: set[str] = set()
        self._turns: set[str] = set()

    @asynccontextmanager
    async def writing(self) -> AsyncIterator[None]:
        """Write while the context lasts; at the end, every write has been answered or given up."""
        ending = asyncio.Event()

        async def write() -> None:
            while not ending.is_set() and self._done < MAX_SAVES:
                await self._write(next(self._numbers))
                await asyncio.sleep(SAVE_INTERVAL)

        writers = [asyncio.create_task(write()) for _ in range(WRITERS)]
        try:
            yield
        finally:
            ending.set()
            await asyncio.gather(*writers)

    def claim(self) -> Claim:
        return Claim(self._done, len(self._notes) + len(self._turns), self._missing)

    async def _write(self, number: int) -> None:
        self._done += 1
        if self._with_turns and number % 2:
            await self._publish_turn(f"{self._user}{number}")
        else:
            await self._save(f"Note {number} of the load while something is killed.")

    async def _save(self, text: str) -> None:
        data = envelope(self._user, {"args": {"content": text}})
        request = subjects.tool_request("save_memory")
        if succeeded(await self._target.request(request, data, within=ANSWER_TIMEOUT)):
            self._notes.add(text)

    async def _publish_turn(self, query_id: str) -> None:
        data = turn(self._user, query_id, f"What is {query_id}?", f"It is {query_id}.")
        subject = subjects.RESPONSE_GENERATION
        if await self._target.stored(subject, data, within=ANSWER_TIMEOUT) is not None:
            self._turns.add(query_id)

    async def _missing(self) -> int:
        kept = self._target.kept
        notes = await kept.contents(self._user, "note")
        return len(self._notes - notes) + len(self._turns - await kept.turns(self._user))


async def worker_killed(target: Target) -> Claim:
    """Kill each worker once it is running and the index is in use."""
    load = Load(target, "worker killed", with_turns=False)

    async def another(than: int | None) -> bool:
        now = target.child(VECTOR_WORKER)
        status = await Asker(target.client).status()
        return now not in {None, than} and status.vectors_available

    async with load.writing():
        worker: int | None = None
        for _ in range(target.count(WORKER_KILLS)):
            await until(partial(another, worker))
            worker = kill(target, VECTOR_WORKER)
        await until(partial(another, worker))
    return load.claim()


async def server_killed(target: Target) -> Claim:
    load = Load(target, "server killed", with_turns=True)
    async with load.writing():
        await asyncio.sleep(LOAD_SECONDS_BEFORE)
        kill(target, NATS_SERVER)
        await until(lambda: answers(target))
        await asyncio.sleep(LOAD_SECONDS_AFTER)
    return load.claim()


async def stack_killed(target: Target) -> Claim:
    load = Load(target, "stack killed", with_turns=False)
    async with load.writing():
        await asyncio.sleep(LOAD_SECONDS_BEFORE)
        await target.restart_killed()
        await until(lambda: answers(target))
        await asyncio.sleep(LOAD_SECONDS_AFTER)
    return load.claim()


def kill(target: Target, command: bytes) -> int:
    """Kill the process with this text in its command line; return its id."""
    process = target.child(command)
    assert process is not None, command
    os.kill(process, signal.SIGKILL)
    return process


async def answers(target: Target) -> bool:
    request = envelope("asking", {"args": {"topic": "user.name"}})
    recall = subjects.tool_request("recall_topic")
    return await target.request(recall, request, within=ANSWER_TIMEOUT) is not None


async def until(condition: Callable[[], Awaitable[bool]]) -> None:
    async with asyncio.timeout(PATIENCE):
        while not await condition():  # noqa: ASYNC110 - another process brings it about
            await asyncio.sleep(POLL)


KILLS = (
    Abuse("vector worker killed, again and again", worker_killed, down=True),
    Abuse("nats-server killed", server_killed, down=True),
    Abuse("the whole stack killed", stack_killed, down=True),
)
