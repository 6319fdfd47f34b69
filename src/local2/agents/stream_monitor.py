"""The StreamMonitor detects that JetStream no longer stores turns, reports it, and repairs it.

Once its disk was full, a stream refuses every message until its server restarts. The sender gets no
error: subscribers receive the turn, but it is not stored. So after every turn on the bus, the
StreamMonitor publishes a probe to the same stream. If that fails while the server is reachable, the
embedded server is restarted as soon as there is disk space. See decision 0002.
"""

import asyncio
import time
from collections.abc import Callable, Iterable

import structlog

from local2.background import Backoff
from local2.bus.connection import BusMessage, Connection
from local2.bus.participant import Participant
from local2.bus.server import EmbeddedServer
from local2.bus.streams import ELECTION_TIMEOUT, is_clustered, publish_durably
from local2.errors import BusError
from local2.home import why_unwritable
from local2.protocol import subjects
from local2.protocol.envelope import DEFAULT_TENANT, encode, seal
from local2.protocol.payloads import Empty

NAME = "stream_keeper"  # on the bus, where others may know it
PROBE_INTERVAL = 1.0
"""Seconds between two probes: each costs a sync of the disk; failures are still noticed soon."""
PROBE_PATIENCE = 3.0
"""Seconds to wait for the acknowledgement of a probe."""
FAILURES_BEFORE_RESTART = 2
"""Consecutive failed probes before the server is restarted; one may be due to a slow disk."""
MAX_PAUSE = 10.0
"""Maximum seconds between probes after failures, so that waiting for disk space costs little."""

log = structlog.get_logger()


class StreamMonitor(Participant):
    """Probes the stream of turns while `run` runs; `problem` says why turns are not stored."""

    def __init__(
        self,
        bus: Connection,
        server: EmbeddedServer | None,
        tenants: Callable[[], Iterable[str]] = lambda: (DEFAULT_TENANT,),
        on_turn: Callable[[str], None] = lambda _tenant: None,
    ) -> None:
        """`tenants` returns the tenants with streams; probing one suffices for the server.

        `on_turn` is called with the tenant of each turn that is published.
        """
        super().__init__(bus, name=NAME, description="Sees to it that turns can be stored.")
        self.problem: str | None = None
        self._server = server
        self._tenants = tenants
        self._on_turn = on_turn
        self._published = asyncio.Event()
        for subject in (
            subjects.MEMORY_TURN,
            subjects.RESPONSE_GENERATION,
            subjects.RESPONSE_FEEDBACK,
        ):
            self.serve(subject, self._receive)

    async def run(self) -> None:
        """Probe after each turn, and repair the server if needed, until cancelled."""
        while True:
            await self._published.wait()
            self._published.clear()
            failures, backoff = 0, Backoff(PROBE_INTERVAL, MAX_PAUSE)
            begun = time.monotonic()
            while (failure := await self._probe()) is not None:
                if not self.bus.lost.is_set():  # a lost connection recovers by itself
                    failures += 1
                    if self._server is None:
                        if not is_clustered(self.bus):
                            advice = "Free space on its disk, and restart the NATS server."
                        elif time.monotonic() - begun < ELECTION_TIMEOUT:
                            advice = (
                                "The servers of its cluster elect a leader; turns are stored "
                                "afterwards."
                            )
                        else:
                            advice = (
                                "Most servers of its cluster must run, reach each other, and have "
                                "space on their disks. Restart those whose disks were full."
                            )
                        self._report(f"{failure} {advice}")
                    elif unwritable := await asyncio.to_thread(why_unwritable, self._server.folder):
                        self._report(
                            f"{unwritable} Turns are stored afterwards, without a restart."
                        )
                    elif failures < FAILURES_BEFORE_RESTART:
                        self._report(str(failure))
                    else:
                        self._report(f"{failure} The NATS server is restarted.")
                        await self._server.stop()  # its `watch` starts it again
                await asyncio.sleep(backoff.next_pause())
            if self.problem is not None:
                log.info("turns_stored_again")
                self.problem = None
            await asyncio.sleep(PROBE_INTERVAL)

    async def _receive(self, message: BusMessage) -> None:
        self._on_turn(message.tenant)
        self._published.set()

    async def _probe(self) -> BusError | None:
        if (tenant := next(iter(self._tenants()), None)) is None:
            return None
        subject = self.bus.incoming_subject(subjects.MEMORY_PROBE, tenant)
        probe = encode(seal(Empty(), type="probe", source=self.name))
        try:
            await publish_durably(self.bus, subject, probe, timeout=PROBE_PATIENCE)
        except BusError as failure:
            return failure
        return None

    def _report(self, why: str) -> None:
        problem = f"Turns cannot be stored: {why}"
        if problem != self.problem:
            log.error("turns_not_stored", reason=problem)
        self.problem = problem
