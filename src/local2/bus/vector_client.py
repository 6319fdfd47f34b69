"""The client of the vector worker: requests over the bus; failures are raised as VectorError.

A search must not wait for a dead worker. When the worker exits or the connection is lost, the
answer is lost as well, so all waiting requests fail at once. What is lost with another stack's
worker, or with a server between, is sent again: any of these requests may be repeated.
"""

import asyncio
from typing import TypeVar

import msgspec

from local2 import telemetry
from local2.background import note_failure
from local2.bus.connection import BusMessage, Connection
from local2.bus.identity import signed
from local2.bus.lost_requests import sent_until_answered
from local2.errors import (
    BusError,
    EmbedderMismatchError,
    IndexDamagedError,
    VectorError,
    VectorFaultError,
)
from local2.protocol import subjects
from local2.protocol.envelope import decode, encode, seal
from local2.protocol.payloads import ERROR_CODE, Empty, ErrorReply
from local2.protocol.tool import may_wait
from local2.protocol.vectors import (
    TenantOnly,
    VectorCheck,
    VectorDelete,
    VectorHits,
    VectorIdPage,
    VectorIds,
    VectorItem,
    VectorNext,
    VectorRerank,
    VectorReset,
    VectorScores,
    VectorSearch,
    VectorsStored,
    VectorStatus,
    VectorUpsert,
)

BATCH_TIMEOUT = 300.0
"""Seconds to wait for a batch; slow embedders need them, and a dead worker is noticed at once."""
STATUS_TIMEOUT = 10.0
"""Seconds to wait for the status, which the worker answers after at most one step of a batch."""
RERANK_GRACE = 0.5
"""Seconds to wait for scores after the time to read: for the last batch, and those of others."""
WORKER_ENDED = "The vector worker ended; it is being restarted."
NO_CONNECTION = "The connection to the bus was lost; it is being re-established."

R = TypeVar("R")


ERRORS_BY_CODE: dict[str, type[VectorError]] = {
    error.code: error for error in (EmbedderMismatchError, IndexDamagedError, VectorFaultError)
}


class VectorRequests:
    """Sends requests to the vector worker; they fail once the worker or the connection is lost."""

    def __init__(self, bus: Connection, *, search_timeout: float) -> None:
        self._bus = bus
        self.search_timeout = search_timeout
        self._lost: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    def worker_lost(self) -> None:
        """Fail all pending requests; called when the worker's process has exited."""
        self._lost.set_result(None)
        self._lost = asyncio.get_running_loop().create_future()

    async def rerank(self, query: str, documents: list[str], *, within: float) -> list[float]:
        """Read for `within` seconds, and return the scores of the first documents."""
        request = VectorRerank(query=query, documents=documents, patience=within)
        seconds = within + RERANK_GRACE
        return (await self.ask(subjects.VECTOR_RERANK, request, VectorScores, seconds)).scores

    async def ask(self, subject: str, payload: msgspec.Struct, into: type[R], seconds: float) -> R:
        if self._bus.lost.is_set():
            raise VectorError(NO_CONNECTION)
        envelope = seal(payload, type="request", source="memory")
        data = encode(envelope)
        ended, lost = self._lost, asyncio.create_task(self._bus.lost.wait())

        async def send(seconds: float) -> BusMessage:
            headers = signed(self._bus.secret, subject, data)
            return await self._bus.request(subject, data, timeout=seconds, headers=headers)

        async def is_lost() -> bool:
            asked = seal(Empty(), type="running", source="memory", correlation_id=envelope.id)
            question = encode(asked)
            headers = signed(self._bus.secret, subjects.VECTOR_RUNNING, question)
            subject = subjects.VECTOR_RUNNING
            return await self._bus.has_request(subject, question, headers) is False

        request: asyncio.Task[BusMessage] = asyncio.create_task(
            sent_until_answered(send, is_lost, seconds)
        )
        request.add_done_callback(note_failure)
        try:
            await asyncio.wait((request, ended, lost), return_when=asyncio.FIRST_COMPLETED)
            if not request.done():
                raise VectorError(WORKER_ENDED if ended.done() else NO_CONNECTION)
            answer = request.result()
            if (code := (answer.headers or {}).get(ERROR_CODE)) is None:
                return decode(answer.data, into).payload
            problem = decode(answer.data, ErrorReply).payload.message
            raise ERRORS_BY_CODE.get(code, VectorError)(problem)
        except BusError as error:
            raise VectorError(f"The vector worker does not answer: {error}") from error
        finally:
            request.cancel()
            lost.cancel()


class VectorClient:
    """One tenant's vectors, which the vector worker keeps."""

    def __init__(self, requests: VectorRequests, tenant: str) -> None:
        self._ask = requests.ask
        self._search_timeout = requests.search_timeout
        self._tenant = tenant

    async def search(self, text: str, limit: int) -> VectorHits:
        """Find the nearest vectors, as long as the caller of the current tool waits for them."""
        patience = min(self._search_timeout, may_wait())
        request = VectorSearch(text=text, limit=limit, patience=patience, tenant=self._tenant)
        hits = await self._ask(subjects.VECTOR_SEARCH, request, VectorHits, patience)
        if telemetry.meter is not None:
            telemetry.meter.question_vectors.labels("true" if hits.cached else "false").inc()
        return hits

    async def upsert(self, items: list[VectorItem]) -> VectorsStored:
        return await self._upsert(VectorUpsert(items=items, tenant=self._tenant))

    async def upsert_next(self, items: list[VectorItem]) -> VectorsStored:
        return await self._upsert(VectorUpsert(items=items, tenant=self._tenant, into_next=True))

    async def _upsert(self, request: VectorUpsert) -> VectorsStored:
        return await self._ask(subjects.VECTOR_UPSERT, request, VectorsStored, BATCH_TIMEOUT)

    async def delete(self, ids: list[str]) -> None:
        request = VectorDelete(ids=ids, tenant=self._tenant)
        await self._ask(subjects.VECTOR_DELETE, request, Empty, BATCH_TIMEOUT)

    async def ids(self, offset: int, limit: int, *, of_next: bool = False) -> list[str]:
        """Read a page of the ids in the index, or in the next one."""
        request = VectorIds(offset=offset, limit=limit, tenant=self._tenant, of_next=of_next)
        return (await self._ask(subjects.VECTOR_IDS, request, VectorIdPage, BATCH_TIMEOUT)).ids

    async def held(self, ids: list[str]) -> list[str]:
        """Find out which of these ids are in the index."""
        request = VectorIds(offset=0, limit=len(ids), tenant=self._tenant, among=ids)
        return (await self._ask(subjects.VECTOR_IDS, request, VectorIdPage, BATCH_TIMEOUT)).ids

    async def lost(self, items: list[VectorItem]) -> list[str]:
        """Find the ids of those items whose vectors a search does not find."""
        request = VectorCheck(items=items, tenant=self._tenant)
        return (await self._ask(subjects.VECTOR_LOST, request, VectorIdPage, BATCH_TIMEOUT)).ids

    async def status(self) -> VectorStatus:
        request = TenantOnly(tenant=self._tenant)
        return await self._ask(subjects.VECTOR_STATUS, request, VectorStatus, STATUS_TIMEOUT)

    async def reset(self, *, whole: bool = False) -> VectorStatus:
        """Empty the tenant's index; with `whole`, empty the folder of all tenants' indexes."""
        request = VectorReset(tenant=self._tenant, whole=whole)
        return await self._ask(subjects.VECTOR_RESET, request, VectorStatus, BATCH_TIMEOUT)

    async def begin_next(self, embedder: str) -> VectorStatus:
        """Begin or continue to fill the index of another embedder."""
        request = VectorNext(action="begin", embedder=embedder, tenant=self._tenant)
        return await self._ask(subjects.VECTOR_NEXT, request, VectorStatus, BATCH_TIMEOUT)

    async def swap(self, embedder: str) -> VectorStatus:
        """Replace the current index by the one of another embedder."""
        request = VectorNext(action="swap", embedder=embedder, tenant=self._tenant)
        return await self._ask(subjects.VECTOR_NEXT, request, VectorStatus, BATCH_TIMEOUT)
