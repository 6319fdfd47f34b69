"""Share a ledger with other stacks: say that this one lives, take over tasks, tell of answers.

Any number of stacks serve one memory if their ledger is a database (`ledger:` in memory.yaml). What
they have to agree on is in that database: the tasks and the work that each has claimed. What a
killed stack had claimed is free again ten seconds later. See decision 0059.
"""

import asyncio
import os
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager

import msgspec
import structlog

from local2.background import go_on, in_background
from local2.bus.connection import BusMessage, Connection
from local2.bus.identity import signed
from local2.bus.participant import Participant
from local2.errors import BusError, StorageError
from local2.home import stack_name
from local2.memory.answer_log import ShownAnswer
from local2.memory.tenant import Memories, Memory
from local2.protocol import subjects
from local2.protocol.envelope import decode, encode, seal, utc_now
from local2.stack.ledgers import Ledgers

SIGNS_OF_LIFE = 2.0
"""Seconds between two of them, and between two looks for tasks that nobody does."""

log = structlog.get_logger()


class AnswerShown(msgspec.Struct, frozen=True, kw_only=True):
    """What one stack tells the others of an answer (`memory.answered`)."""

    tenant: str
    answer: ShownAnswer


class AnswerSharing(Participant):
    """Tells the other stacks what this one answers, so that each recognises it in a turn."""

    def __init__(self, bus: Connection, memories: Memories) -> None:
        """`bus` must not return to this stack what it sends."""
        super().__init__(bus, name="answer_sharing", description="Tells stacks what others answer.")
        self._memories = memories
        self.serve(subjects.MEMORY_ANSWERED, self._receive, inner=True)

    def share(self, memory: Memory) -> None:
        """Tell the others of each answer of a memory from now on."""

        def tell_others(answer: ShownAnswer) -> None:
            go_on(self._publish(AnswerShown(tenant=memory.tenant, answer=answer)))

        memory.answer_log.tell_others = tell_others

    async def _publish(self, shown: AnswerShown) -> None:
        data = encode(seal(shown, type="event", source=self.name))
        headers = signed(self.bus.secret, subjects.MEMORY_ANSWERED, data)
        try:
            await self.bus.publish(subjects.MEMORY_ANSWERED, data, headers=headers)
        except BusError as error:
            log.warning("answer_not_shared", reason=error.logged)

    async def _receive(self, message: BusMessage) -> None:
        shown = decode(message.data, AnswerShown).payload
        self._memories.note_answer(shown.tenant, shown.answer)


@asynccontextmanager
async def sharing_ledger(ledgers: Ledgers, memories: Memories) -> AsyncIterator[None]:
    """Say that this stack lives while the context lasts; wake its jobs for what others leave."""
    database = ledgers.shared
    if database is None:
        yield
        return
    name = stack_name(os.getpid())

    async def look_after_tasks() -> None:
        for tenant, kind in await database.say_alive(name, utc_now()):
            memories.wake(tenant, kind)

    async def run() -> None:
        is_away = False
        while True:
            await asyncio.sleep(SIGNS_OF_LIFE)
            try:
                await look_after_tasks()
                await database.count_grown()
            except StorageError as error:
                if not is_away:
                    log.warning("ledger_away", reason=error.logged)
                is_away = True
            else:
                if is_away:
                    log.info("ledger_back")
                is_away = False

    await look_after_tasks()
    async with AsyncExitStack() as resources:
        await in_background(resources, signs_of_life=run())
        yield
