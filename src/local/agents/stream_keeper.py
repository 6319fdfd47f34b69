"""StreamKeeper: notices when JetStream stops storing turns, reports it, and repairs the server.

A stream whose disk was full once refuses every message until its server restarts, and the sender
gets no error: others receive the turn, but it is not stored. So after every turn on the bus a probe
is published into the same stream. If that fails while the server answers, the embedded server is
restarted once there is space again. See decision 0034.
"""

import asyncio
from collections.abc import Callable, Iterable

import structlog

from local.bus.connection import BusMessage, Connection
from local.bus.participant import Participant
from local.bus.server import EmbeddedServer
from local.bus.streams import publish_durably
from local.errors import BusError
from local.home import why_unwritable
from local.protocol import subjects
from local.protocol.envelope import DEFAULT_TENANT

NAME = "stream_keeper"
PROBES_APART = 1.0
"""Seconds between two probes: each costs a sync of the disk, and a failure is noticed soon
enough."""
PROBE_PATIENCE = 3.0
"""Seconds to wait for the acknowledgement of a probe; after FAILURES of them the server
restarts."""
FAILURES = 2
"""Failures in a row before the server is restarted: a disk may be slow."""
LAST_PAUSE = 10.0
"""Seconds between attempts once several have failed, so that waiting for space costs little."""

log = structlog.get_logger()


class StreamKeeper(Participant):
    """Probes the stream of turns while `run` runs; `problem` is why it stores none."""

    def __init__(
        self,
        bus: Connection,
        server: EmbeddedServer | None,
        tenants: Callable[[], Iterable[str]] = lambda: (DEFAULT_TENANT,),
    ) -> None:
        """`tenants`: those whose streams exist; all streams are one server's."""
        super().__init__(bus, name=NAME, description="Sees to it that turns can be stored.")
        self.problem: str | None = None
        self._server = server
        self._tenants = tenants
        self._published = asyncio.Event()
        for subject in (
            subjects.MEMORY_TURN,
            subjects.RESPONSE_GENERATION,
            subjects.RESPONSE_FEEDBACK,
        ):
            self.serve(subject, self._receive)

    async def run(self) -> None:
        """Probe after each turn, and repair what is broken, until cancelled."""
        while True:
            await self._published.wait()
            self._published.clear()
            await self._until_stored()
            await asyncio.sleep(PROBES_APART)

    async def _receive(self, _: BusMessage) -> None:
        self._published.set()

    async def _until_stored(self) -> None:
        failures, pause = 0, PROBES_APART
        while (failure := await self._probe()) is not None:
            if not self.bus.lost.is_set():  # a lost server comes back by itself
                failures += 1
                await self._mend(failure, patient=failures < FAILURES)
            await asyncio.sleep(pause)
            pause = min(pause * 2, LAST_PAUSE)
        if self.problem is not None:
            log.info("turns_stored_again")
            self.problem = None

    async def _probe(self) -> BusError | None:
        if (tenant := next(iter(self._tenants()), None)) is None:
            return None
        subject = self.bus.incoming_subject(subjects.MEMORY_PROBE, tenant)
        try:
            await publish_durably(self.bus, subject, b"", timeout=PROBE_PATIENCE)
        except BusError as failure:
            return failure
        return None

    async def _mend(self, failure: BusError, *, patient: bool) -> None:
        if self._server is None:
            self._report(f"{failure} See that its disk has space, and restart the NATS server.")
        elif unwritable := await asyncio.to_thread(why_unwritable, self._server.folder):
            self._report(f"{unwritable} They are stored then, without a restart.")
        elif patient:
            self._report(f"{failure}")
        else:
            self._report(f"{failure} The NATS server is restarted.")
            await self._server.restart()

    def _report(self, why: str) -> None:
        problem = f"Turns cannot be stored: {why}"
        if problem != self.problem:
            log.error("turns_not_stored", reason=problem)
        self.problem = problem
