"""StreamKeeper: notices that JetStream takes no turns any more, says so, and mends its server.

A stream whose disk was full once refuses every message until its server restarts, without a word to
whoever publishes: what is left of a turn is that somebody heard it. So behind every turn that is
heard a probe is stored beside it. Where that fails although the server answers, a server of our own
is restarted, once there is space again.
"""

import asyncio

import structlog

from local.bus.connection import Connection, Message
from local.bus.participant import Participant
from local.bus.server import EmbeddedServer
from local.bus.streams import publish_durably
from local.errors import BusError
from local.protocol import subjects

NAME = "stream_keeper"
PROBES_APART = 1.0
PROBE_PATIENCE = 3.0
FAILURES = 2
"""In a row, before the server is restarted: a disk may be slow."""
LAST_PAUSE = 10.0

log = structlog.get_logger()


class StreamKeeper(Participant):
    """Probes the stream of turns while `run` runs; `problem` says why it takes none."""

    def __init__(self, bus: Connection, server: EmbeddedServer | None) -> None:
        super().__init__(bus, name=NAME, description="Sees to it that turns can be stored.")
        self.problem: str | None = None
        self._server = server
        self._heard = asyncio.Event()
        for subject in (
            subjects.MEMORY_TURN,
            subjects.RESPONSE_GENERATION,
            subjects.RESPONSE_FEEDBACK,
        ):
            self.serve(subject, self._hear)

    async def run(self) -> None:
        """Probe behind what is heard, and mend what is broken, until cancelled."""
        while True:
            await self._heard.wait()
            self._heard.clear()
            await self._until_stored()
            await asyncio.sleep(PROBES_APART)

    async def _hear(self, _: Message) -> None:
        self._heard.set()

    async def _until_stored(self) -> None:
        failures, pause = 0, PROBES_APART
        while (failure := await self._probe()) is not None:
            if not self.bus.lost.is_set():  # a server that has gone is started again, or waited for
                failures += 1
                await self._mend(failure, patient=failures < FAILURES)
            await asyncio.sleep(pause)
            pause = min(pause * 2, LAST_PAUSE)
        if self.problem is not None:
            log.info("turns_stored_again")
            self.problem = None

    async def _probe(self) -> BusError | None:
        try:
            await publish_durably(self.bus, subjects.MEMORY_PROBE, b"", timeout=PROBE_PATIENCE)
        except BusError as failure:
            return failure
        return None

    async def _mend(self, failure: BusError, *, patient: bool) -> None:
        if self._server is None:
            self._say(f"{failure} See that its disk has space, and restart the NATS server.")
        elif lacking := await asyncio.to_thread(self._server.lacks_room):
            self._say(f"{lacking} They are stored then, without a restart.")
        elif patient:
            self._say(f"{failure}")
        else:
            self._say(f"{failure} The NATS server is restarted.")
            await self._server.restart()

    def _say(self, why: str) -> None:
        problem = f"Turns cannot be stored: {why}"
        if problem != self.problem:
            log.error("turns_not_stored", reason=problem)
        self.problem = problem
