"""The calls of a tool that are under way, so that whoever asked can take one back."""

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager

from local.errors import CancelledCallError
from local.protocol.envelope import Caller

_Key = tuple[str, str | None, str | None, str]


class RunningCalls:
    """Calls by who asked and the id of the request; nobody else can cancel them."""

    def __init__(self) -> None:
        self._tasks: dict[_Key, asyncio.Task[None]] = {}
        self._cancelled: set[_Key] = set()

    @contextmanager
    def cancellable(self, caller: Caller, request_id: str) -> Iterator[None]:
        """The current task's work, until it is done or cancelled.

        Raises:
            CancelledCallError: Whoever asked does not want the answer any more.
        """
        key, task = _key(caller, request_id), asyncio.current_task()
        if task is None or not request_id:
            yield
            return
        self._tasks[key] = task
        try:
            yield
        except asyncio.CancelledError:
            if key not in self._cancelled:
                raise
            task.uncancel()
            raise CancelledCallError(
                "The call was cancelled by whoever asked.",
                remedy="What was written before stays; ask again if it is needed.",
            ) from None
        finally:
            self._tasks.pop(key, None)
            self._cancelled.discard(key)

    def cancel(self, caller: Caller, request_id: str) -> None:
        """Cancel a call of this caller, if it is under way here."""
        key = _key(caller, request_id)
        if (task := self._tasks.get(key)) is not None and key not in self._cancelled:
            self._cancelled.add(key)
            task.cancel()


def _key(caller: Caller, request_id: str) -> _Key:
    return caller.tenant, caller.user, caller.agent, request_id
