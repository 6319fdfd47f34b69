"""Send queries to the GeneratorAgent, and receive its answer in pieces and as a finished turn."""

import asyncio
from collections.abc import Callable
from contextlib import suppress
from typing import Self

import msgspec

from local2.background import Backoff, await_unless
from local2.bus.connection import BusMessage, Connection, Subscription
from local2.errors import (
    BadRequestError,
    BusTimeoutError,
    Local2Error,
    NoRespondersError,
    OverloadedError,
    RequestError,
    StackNotRunningError,
)
from local2.logs import get_logger
from local2.protocol import subjects
from local2.protocol.envelope import Sender, decode, encode, new_id, seal_from
from local2.protocol.lenient.turns import read_generation
from local2.protocol.payloads import Delta, Empty, Generation, Query, ToolResult

ACCEPT_TIMEOUT = 5.0
"""Seconds to wait for the acknowledgement of a query, which the GeneratorAgent sends before
anything else."""

FIRST_LOOK, LONGEST_PAUSE = 1.0, 5.0
"""Seconds until a client asks for the first time whether its query is still worked on, and at most
between two times."""
MISSED_LOOKS = 2
"""How often nobody has it until it is given up: an answer may be on its way at the first time."""

OnDelta = Callable[[str], None]

log = get_logger()


class QueryClient:
    """Sends queries and waits for their answers while its context lasts."""

    def __init__(self, bus: Connection) -> None:
        self._bus = bus
        self._answers: dict[str, asyncio.Future[Generation]] = {}
        self._listeners: dict[str, OnDelta] = {}
        self._subscription: Subscription | None = None

    async def __aenter__(self) -> Self:
        # One message at a time keeps the pieces of an answer in order, before the finished turn.
        self._subscription = await self._bus.subscribe(subjects.RESPONSES, self._receive, limit=1)
        try:
            await self._bus.flush()
        except BaseException:
            await self.__aexit__()
            raise
        return self

    async def __aexit__(self, *_: object) -> None:
        if self._subscription is not None:
            await self._subscription.stop(grace=1.0)

    async def ask(
        self,
        text: str,
        *,
        caller: Sender,
        on_delta: OnDelta = lambda _: None,
        timeout: float = 300.0,  # noqa: ASYNC109 - it depends on the model
    ) -> Generation:
        """Send a query and return the finished turn; its `error` says why there is no answer.

        Cancelling this stops the answer.

        Args:
            text: The query.
            caller: Who is asking, and in which session.
            on_delta: Called with each piece of the answer as it arrives.
            timeout: Seconds to wait for the whole answer.

        Raises:
            NoRespondersError: No GeneratorAgent is on the bus.
            StackNotRunningError: The server, or the GeneratorAgent, ended before it answered.
            BusTimeoutError: The answer did not arrive in time.
            BadRequestError: The GeneratorAgent refused the query, for example because it is empty.
        """
        query_id = new_id()
        answer: asyncio.Future[Generation] = asyncio.get_running_loop().create_future()
        self._answers[query_id] = answer
        self._listeners[query_id] = on_delta
        query = Query(query=text, session_id=caller.session_id, query_id=query_id)
        sender = msgspec.structs.replace(caller, query_id=query_id)
        request = seal_from(sender, query, type="query")
        try:
            acknowledgement = await self._bus.request_patiently(
                subjects.QUERY_RECEIVED, encode(request), timeout=ACCEPT_TIMEOUT
            )
            accepted = decode(acknowledgement.data, ToolResult).payload
            if (refused := accepted.error) is None:
                question = seal_from(sender, Empty(), type="running", correlation_id=request.id)
                async with asyncio.timeout(timeout):
                    gone = self._until_gone(encode(question))
                    return await await_unless(gone, answer, _gone_error)
        except asyncio.CancelledError:
            cancel = seal_from(sender, Empty(), type="cancel", correlation_id=request.id)
            with suppress(Local2Error):
                await self._bus.publish(subjects.QUERY_CANCEL, encode(cancel))
            raise
        except NoRespondersError as error:
            raise NoRespondersError("No GeneratorAgent is on the bus.") from error
        except TimeoutError as error:
            raise BusTimeoutError(f"No answer arrived within {timeout:g} s.") from error
        finally:
            del self._answers[query_id], self._listeners[query_id]
        # Without a GeneratorAgent, it is the memory that refuses: it receives queries, too.
        if refused.code == NoRespondersError.code:
            raise NoRespondersError("No GeneratorAgent is on the bus.")
        if refused.code == OverloadedError.code:
            raise OverloadedError(retry_after=refused.retry_after or 1.0)
        raise BadRequestError(f"The query was refused: {refused.message}")

    async def _until_gone(self, question: bytes) -> None:
        """Return once the server is lost, or nobody works on the query any more."""
        pauses = Backoff(FIRST_LOOK, LONGEST_PAUSE)
        was_seen, missed = False, 0
        while missed < MISSED_LOOKS:
            with suppress(TimeoutError):
                await asyncio.wait_for(self._bus.lost.wait(), pauses.next_pause())
                return
            found = await self._bus.has_request(subjects.QUERY_RUNNING, question)
            # An agent of another team may never say what it works on.
            if found is False or (found is None and was_seen):
                missed += 1
                pauses.reset()
            else:
                was_seen, missed = was_seen or found is True, 0

    async def _receive(self, message: BusMessage) -> None:
        try:
            if message.subject == subjects.RESPONSE_DELTA:
                delta = decode(message.data, Delta).payload
                if delta.query_id in self._listeners:
                    self._listeners[delta.query_id](delta.text)
            elif message.subject == subjects.RESPONSE_GENERATION:
                turn = read_generation(message.data).envelope.payload
                answer = self._answers.get(turn.query_id or "")
                if answer is not None and not answer.done():
                    answer.set_result(turn)
        except RequestError as error:
            log.debug("response_not_understood", subject=message.subject, reason=str(error))


def _gone_error() -> StackNotRunningError:
    return StackNotRunningError(
        "What was answering has stopped before its answer was complete.", remedy="Ask again."
    )
