"""Serve while the lease of the bus is held, stop when it is lost, and resume when it is regained.

Only one stack serves a memory, which two things guarantee:

- on one data folder, the folder's lock (`home.folder_lock`, taken by `joining.lock_data_folder`): a
  second stack, or the children of a killed one, cannot open the same files
- on one bus, the lease (`bus/lease.py`): stacks with different folders would split the requests

A lost lease stops the participants only. The tenants' jobs, generators and backups go on: they read
and write this stack's own files, which the lock keeps others from, and whatever they ask over the
bus is answered by the stack that serves it.
"""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from contextlib import AsyncExitStack
from typing import Self

import structlog

from local2.bus.lease import ANSWER_TIMEOUT, LEASE_SECONDS, RENEWAL_INTERVAL, Lease
from local2.bus.participant import Participant
from local2.errors import BusError, LeaseHeldError

RETRY_INTERVAL = 0.5
"""Seconds between two attempts to regain a lost lease: meanwhile nobody may serve."""

log = structlog.get_logger()


class Serving:
    """Runs participants while the lease is held; `run` must run in a task."""

    def __init__(
        self, lease: Lease, participants: Callable[[], Awaitable[Sequence[Participant]]]
    ) -> None:
        self._lease = lease
        self._participants = participants
        self._started: Sequence[Participant] = ()
        self._running: AsyncExitStack | None = None

    async def __aenter__(self) -> Self:
        await self._start()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._stop()

    @property
    def serves(self) -> bool:
        """Whether all participants have started and are not stopped."""
        return self._running is not None

    async def run(self) -> None:
        """Renew the lease until cancelled; stop serving while it is lost, then resume.

        Nothing is at risk while nothing is served: each attempt to regain the lease is given twice
        the time of the one before, so that one succeeds on a slow machine, too.
        """
        patience = ANSWER_TIMEOUT
        while True:
            await asyncio.sleep(RENEWAL_INTERVAL if self.serves else RETRY_INTERVAL)
            try:
                async with asyncio.timeout(patience):
                    await self._lease.renew(patience=patience)
                if self._running is None:
                    await self._start()
                    log.info("lease_regained")
                patience = ANSWER_TIMEOUT
            except (BusError, TimeoutError) as error:
                lost = isinstance(error, LeaseHeldError) or self._lease.is_ending
                if lost and self._running is not None:
                    reason = str(error) or "JetStream does not answer."
                    log.error(  # noqa: TRY400 - the reason says enough
                        "lease_lost", reason=reason, meanwhile="no tool is served"
                    )
                    await asyncio.gather(*(participant.leave() for participant in self._started))
                    await self._stop()
                if not self.serves:
                    longest = LEASE_SECONDS - RENEWAL_INTERVAL - ANSWER_TIMEOUT
                    patience = min(2 * patience, longest)

    async def _start(self) -> None:
        self._started = await self._participants()
        async with AsyncExitStack() as running:
            for participant in self._started:
                await running.enter_async_context(participant)
            self._running = running.pop_all()

    async def _stop(self) -> None:
        if self._running is not None:
            await self._running.aclose()
            self._running = None
