"""The calls that a participant runs: their callers ask whether they run, and cancel them."""

import asyncio
from contextlib import AbstractContextManager, nullcontext
from typing import Any

from local2.bus.connection import BusMessage
from local2.bus.participant import Participant
from local2.errors import BadRequestError, CancelledCallError
from local2.protocol.envelope import Caller, header_of
from local2.protocol.payloads import Running

_CallKey = tuple[str, str | None, str | None, str]


class RunningCalls:
    """The calls in progress, by caller and request id, so that only their callers cancel them."""

    def __init__(self, host: Participant) -> None:
        self._host = host
        self._tasks: dict[_CallKey, asyncio.Task[None]] = {}
        self._cancelled: set[_CallKey] = set()

    def cancellable(self, caller: Caller, request_id: str) -> AbstractContextManager[None]:
        """Let `cancel` cancel the body, which runs in the current task.

        Raises:
            CancelledCallError: On leaving: the caller has cancelled the call.
        """
        if not request_id:
            return nullcontext()
        return _Cancellable(self, _call_key(caller, request_id))

    def begin(self, key: _CallKey, task: "asyncio.Task[Any]") -> None:
        """Note that a call begins; `cancellable` calls this on entering."""
        self._tasks[key] = task

    def end(self, key: _CallKey) -> bool:
        """Note that a call has ended; return whether its caller has cancelled it."""
        self._tasks.pop(key, None)
        if key not in self._cancelled:
            return False
        self._cancelled.discard(key)
        return True

    def tell_on(self, subject: str) -> None:
        """Let callers ask on a subject whether the host runs their calls, as every host of them."""
        self._host.answer(subject, self._tell, type="running", queue="", limit=None)

    def cancel_on(self, subject: str) -> None:
        """Let callers cancel their calls on a subject: the one host of all that runs it acts."""
        self._host.serve(subject, self._receive_cancellation, limit=None)

    def cancel(self, caller: Caller, request_id: str) -> None:
        """Cancel a call of this caller, if it runs in this host."""
        key = _call_key(caller, request_id)
        if (task := self._tasks.get(key)) is not None and key not in self._cancelled:
            self._cancelled.add(key)
            task.cancel()

    def was_cancelled(self, caller: Caller, request_id: str) -> bool:
        """Whether the caller has cancelled a call that has not ended yet."""
        return _call_key(caller, request_id) in self._cancelled

    async def _tell(self, message: BusMessage) -> Running:
        header = header_of(message.data)
        if header is None or not header.correlation_id:
            raise BadRequestError(
                "correlation_id: the message has none.",
                remedy="It is the id of the request that is asked for.",
            )
        caller = self._host.bus.identity.caller_of(message, header)
        return Running(running=_call_key(caller, header.correlation_id) in self._tasks)

    async def _receive_cancellation(self, message: BusMessage) -> None:
        if (header := header_of(message.data)) is not None and header.correlation_id:
            caller = self._host.bus.identity.caller_of(message, header)
            self.cancel(caller, header.correlation_id)


class _Cancellable:
    """The context of `cancellable`. A generator would take twice the time for every request."""

    __slots__ = ("_calls", "_key", "_task")

    def __init__(self, calls: RunningCalls, key: _CallKey) -> None:
        self._calls, self._key = calls, key
        self._task = asyncio.current_task()

    def __enter__(self) -> None:
        if self._task is not None:
            self._calls.begin(self._key, self._task)

    def __exit__(self, _type: object, error: BaseException | None, _traceback: object) -> None:
        cancelled = self._calls.end(self._key)
        if cancelled and self._task is not None and isinstance(error, asyncio.CancelledError):
            self._task.uncancel()
            raise CancelledCallError(
                "The caller has cancelled the call.",
                remedy="What it had already written stays; repeat the call if needed.",
            ) from None


def _call_key(caller: Caller, request_id: str) -> _CallKey:
    return caller.tenant, caller.user, caller.agent, request_id
