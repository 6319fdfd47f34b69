"""Erase records that belong to the caller, everywhere, and check for traces.

Erased records leave a tombstone (decision 0026). If a part cannot be reached, the receipt says so:
removal from the vector index remains a task, and repeating the request erases everything else.

This module decides the order and makes the receipt. The ledger's part is in `ledger/operations`:
`erasures.py` finds what is selected and clears the rows, `tombstones.py` recognises what was
erased. `bus/stream_erasure.py` erases messages that wait in JetStream.
"""

import asyncio
from collections import Counter
from collections.abc import Awaitable, Iterable, Sequence
from typing import Protocol

import msgspec
import structlog

from local2.errors import InvalidArgumentsError, Local2Error, StorageError, VectorError
from local2.keys import checked_topic
from local2.language.statements import forget_compared
from local2.ledger.erasing import Erased, ErasureOptions, Selection, combined
from local2.ledger.ledger import Ledger
from local2.ledger.records import Task
from local2.memory.backlog import Backlog
from local2.memory.indexing import REMOVED_PER_REQUEST, STARTING, Indexer
from local2.memory.recall.recaller import Recaller, RecallRequest
from local2.memory.scopes import check_may_write, how_to_send, owner_of
from local2.memory.vector_index import Vectors
from local2.protocol.envelope import Caller, Clock, Sender
from local2.protocol.memory_tools import ErasureCheck, Receipt
from local2.protocol.tool import report

ID_PAGE = 5_000
"""Number of ids that are looked up in the index in one request."""
ROUNDS = 3
"""Maximum number of passes. Each erases what was written during the last one; a caller that never
stops writing must repeat the request."""
RECALLED_SAMPLES = 3
"""Number of erased texts that are searched for afterwards, as a user would."""
SAMPLE_TOP_K = 20
"""Number of results in which the erased text is looked for."""
INDEX_CHECKS, CHECK_PAUSE = 30, 0.1
"""Maximum number of checks of the index, and seconds between them, while batches arrive."""
SAMPLE_CHARACTERS = 200
"""Characters of an erased text that are searched for."""
ON_THE_BUS = "turns and dead letters"
AGAIN = "Repeat the request: nothing is erased twice."
INDEX_LATER = "They are removed as soon as the vector worker is available."
STREAM_LATER = "The stream's file is cleaned once all waiting turns are stored. Repeat the request."

log = structlog.get_logger()


class Streams(Protocol):
    """The users' messages in the bus's streams. Every method may raise BusError."""

    async def wait_until_stored(self) -> int: ...
    async def count(self, sender: Sender) -> int: ...
    async def erase(self, sender: Sender) -> int: ...
    async def announce(self, sender: Sender) -> None: ...


class NoStreams:
    """Stands in where there are no streams, or nothing in them is selected."""

    async def wait_until_stored(self) -> int:
        return 0

    async def count(self, sender: Sender) -> int:
        del sender
        return 0

    async def erase(self, sender: Sender) -> int:
        del sender
        return 0

    async def announce(self, sender: Sender) -> None:
        del sender


class Outside(msgspec.Struct, frozen=True, kw_only=True):
    """Everything outside the ledger that holds a memory's content."""

    backlog: Backlog
    indexer: Indexer
    vectors: Vectors
    streams: Streams
    recaller: Recaller


class Erasure:
    """Erases records of one caller, and of nobody else."""

    def __init__(self, ledger: Ledger, outside: Outside, caller: Caller, clock: Clock) -> None:
        self._ledger = ledger
        self._outside = outside
        self._caller = caller
        self._clock = clock

    async def erase(
        self, selection: Selection, *, dry_run: bool = False, allow_again: bool = False
    ) -> Receipt:
        """Erase the selected records; in a dry run, only count them.

        Raises:
            InvalidArgumentsError: The caller has no record with the selected id.
        """
        how = ErasureOptions(at=self._clock(), allow_again=allow_again)
        # A topic or one record names no sender, so that no message in the streams is selected.
        streams = self._outside.streams if selection.is_by_sender else NoStreams()
        sender = Sender(user=self._caller.user, session_id=selection.session_id)
        if dry_run:
            selected = await self._ledger.erasures.select(selection)
            self._check_found(selection, selected.rows, how)
            on_bus = await streams.count(sender)
            return _receipt(how, Counter(selected.counts) + Counter({ON_THE_BUS: on_bus}), None)
        # Turns that wait may hold what is selected, whatever the selection: they are stored first.
        await self._outside.streams.wait_until_stored()
        counts = Counter({ON_THE_BUS: await streams.erase(sender)})
        parts: list[Erased] = []
        for number in range(ROUNDS):
            selected = await self._ledger.erasures.select(selection)
            if number and not selected.rows:
                break
            if not number:
                self._check_found(selection, selected.rows, how)
            parts += await self._erase(selection, selected.rows, how)
        erased = combined(parts)
        counts.update(erased.counts)
        forget_compared()
        await self._outside.streams.announce(sender)
        checks = await self._checks(selection, erased, streams, sender)
        found = sum(check.found for check in checks)
        log.info("erased", records=len(erased.rows), found=found)
        return _receipt(how, counts, checks)

    def selection(
        self,
        *,
        everything: bool = False,
        session_id: str | None = None,
        topic: str | None = None,
        id: str | None = None,  # noqa: A002 - the name of the tool's argument
    ) -> Selection:
        """Select records of the caller, in the scopes to which the caller's role may write.

        Raises:
            InvalidArgumentsError: Not exactly one argument was given, or the caller has no user
                and asked for everything.
            ForbiddenError: The caller has no user, and the role may not write to the tenant's
                scope.
        """
        if [everything, session_id is not None, topic is not None, id is not None].count(True) != 1:
            raise InvalidArgumentsError(
                "Exactly one of everything, session_id, topic and id must be given."
            )
        if everything and self._caller.user is None:
            raise InvalidArgumentsError(
                "everything: the request's envelope has no user.",
                remedy=f"{how_to_send('user')}.",
            )
        if self._caller.user is None:  # records without a user belong to everybody
            check_may_write("tenant", self._caller)
        return Selection(
            owner=owner_of(self._caller),
            scopes=self._caller.writes,
            session_id=session_id,
            topic=checked_topic(topic) if topic is not None else None,
            id=id,
        )

    def _check_found(self, selection: Selection, rows: Iterable[int], how: ErasureOptions) -> None:
        if selection.id is not None and not tuple(rows) and not how.allow_again:
            raise InvalidArgumentsError(
                "id: the caller has no such record.",
                remedy="`local2 recall … --json` shows the ids; what others stated is theirs.",
            )

    async def _erase(
        self, selection: Selection, rows: Sequence[int], how: ErasureOptions
    ) -> list[Erased]:
        """Erase rows part by part, and remove each part from the index at the same time."""

        async def unindex(erased: Erased) -> None:
            gone = erased.unindexed
            try:
                for start in range(0, len(gone), REMOVED_PER_REQUEST):
                    ids = [record.id for record in gone[start : start + REMOVED_PER_REQUEST]]
                    await self._outside.vectors.delete(ids)
                # One write for all: each waits for the transaction that erases the next part.
                tasks = [Task(kind="unindex", row=record.row, id=record.id) for record in gone]
                await self._ledger.backlog.finish(tasks)
            except (StorageError, VectorError) as error:  # their tasks remain
                log.warning("erased_not_unindexed", reason=error.logged)
                self._outside.backlog.wake("unindex")

        parts: list[Erased] = []
        done = 0
        leaving: list[asyncio.Task[None]] = []
        try:
            async for part in self._ledger.erasures.erase(selection, rows, how):
                parts.append(part)
                if part.rows:
                    leaving.append(asyncio.create_task(unindex(part)))
                    done += len(part.rows)
                    await report(done, len(rows))
        finally:
            await asyncio.gather(*leaving)
        # Records that had been merged into an erased one are active again.
        self._outside.backlog.wake("index")
        return parts

    async def _checks(
        self, selection: Selection, erased: Erased, streams: Streams, sender: Sender
    ) -> list[ErasureCheck]:
        """What is still found of what was erased, wherever it was."""

        async def recalled() -> int:
            found, rows = 0, set(erased.rows)
            for sample in erased.samples[:RECALLED_SAMPLES]:
                request = RecallRequest(query=sample[:SAMPLE_CHARACTERS], top_k=SAMPLE_TOP_K)
                items = (await self._outside.recaller.recall(self._caller, request)).items
                found += sum(item.record.row in rows for item in items)
            return found

        async def on_bus() -> int:
            # Waiting turns count as well: as long as there are any, the stream's file keeps older
            # ones.
            return await streams.count(sender) + await self._outside.streams.wait_until_stored()

        async def in_files() -> int:
            await self._ledger.erasures.scrub()
            return 0

        async def in_index() -> int:
            await self._outside.indexer.wait_for_start()  # as long as the caller waits
            if self._outside.indexer.is_starting:
                raise VectorError(STARTING)
            for _ in range(INDEX_CHECKS):  # until batches in flight have arrived
                found = 0
                for start in range(0, len(erased.ids), ID_PAGE):
                    page = list(erased.ids[start : start + ID_PAGE])
                    found += len(await self._outside.vectors.held(page))
                if not found:
                    break
                self._outside.backlog.wake("unindex")
                await asyncio.sleep(CHECK_PAUSE)
            return found

        async def check(name: str, finding: Awaitable[int], note: str) -> ErasureCheck:
            try:
                found = await finding
            except Local2Error as error:
                return ErasureCheck(name=name, found=1, note=f"{error} {note}")
            return ErasureCheck(name=name, found=found, note=note if found else None)

        left = await self._ledger.erasures.select(selection)
        traces = await self._ledger.erasures.traces(erased)
        by_id = traces.ids + traces.references
        return [
            ErasureCheck(name="records", found=len(left.rows)),
            ErasureCheck(name="items", found=left.counts.get("items", 0)),
            ErasureCheck(name="by id and in histories", found=by_id),
            ErasureCheck(name="full text", found=traces.texts),
            ErasureCheck(name="vectors in the ledger", found=traces.vectors),
            await check("recall", recalled(), AGAIN),
            await check(ON_THE_BUS, on_bus(), STREAM_LATER),
            await check("files", in_files(), AGAIN),
            # The last one, because it waits for a worker that is still starting.
            await check("vector index", in_index(), INDEX_LATER),
        ]


def _receipt(
    how: ErasureOptions, counts: Counter[str], checks: list[ErasureCheck] | None
) -> Receipt:
    return Receipt(
        erased={name: number for name, number in sorted(counts.items()) if number},
        at=how.at,
        dry_run=checks is None,
        complete=checks is not None and not any(check.found for check in checks),
        may_come_back=how.allow_again,
        checks=checks or [],
    )
