"""Answer a repeated request with its first answer (`Idempotency-Key`).

Answers are kept in this process only. After its end, repeating a request is as safe as on the bus,
where the same content changes nothing.
"""

import asyncio
import time
from collections import OrderedDict
from collections.abc import Callable, Coroutine
from http import HTTPStatus
from typing import Any

import msgspec

from local2.background import go_on
from local2.errors import BadRequestError, InvalidArgumentsError
from local2.web.answers import HttpAnswer

KEEP_SECONDS = 24 * 3600.0
MAX_KEPT_BYTES = 32 * 1024 * 1024
MAX_KEPT = 10_000
MAX_KEY = 255
REPLAYED = "Idempotency-Replayed"
"""The header of an answer that was given before."""
Owner = tuple[str | None, str | None]
"""The token and the user of a caller: others do not see its answers."""


class _Kept(msgspec.Struct, eq=False):
    """A request that was begun, and its answer."""

    fingerprint: bytes
    answering: asyncio.Task[HttpAnswer]
    until: float
    is_receipt: bool
    size: int = 0
    may_show_erased: bool = False
    """Whether something was erased while it was being answered."""


class Repeats:
    """The answers of the last day, as far as there is room."""

    def __init__(self) -> None:
        self._kept: OrderedDict[tuple[Owner, str], _Kept] = OrderedDict()
        self._size = 0

    async def answer(
        self,
        owner: Owner,
        key: str,
        fingerprint: bytes,
        work: Callable[[], Coroutine[Any, Any, HttpAnswer]],
        *,
        is_receipt: bool = False,
    ) -> HttpAnswer:
        """Do the work for the first request with this key; repetitions get its answer.

        An answer that a retry may change, such as `unavailable`, is not kept. `is_receipt`: it is
        the answer to an erasure, without content, and outlasts that.

        Raises:
            BadRequestError: The key is too long, or not printable.
            InvalidArgumentsError: Another request had this key.
        """
        if len(key) > MAX_KEY or not key.isprintable() or not key.strip():
            raise BadRequestError(
                f"Idempotency-Key: expected 1 to {MAX_KEY} printable characters.",
                remedy="Send a new UUID for each request.",
            )
        self._drop_old()
        place = owner, key
        if (kept := self._kept.get(place)) is not None:
            if kept.fingerprint != fingerprint:
                raise InvalidArgumentsError(
                    "Idempotency-Key: another request was sent with this key.",
                    remedy="Send a new key with each new request.",
                )
            answer = await asyncio.shield(kept.answering)
            return answer._replace(headers={**answer.headers, REPLAYED: "true"})

        kept = _Kept(fingerprint, go_on(work()), time.monotonic() + KEEP_SECONDS, is_receipt)
        self._kept[place] = kept
        kept.answering.add_done_callback(lambda done: self._keep(place, kept, done))
        return await asyncio.shield(kept.answering)

    def _keep(
        self, place: tuple[Owner, str], kept: _Kept, done: "asyncio.Task[HttpAnswer]"
    ) -> None:
        """Keep the answer, unless a retry may get another one, or it may show what was erased."""
        if self._kept.get(place) is not kept:
            return
        failed = done.cancelled() or done.exception() is not None
        if (
            failed
            or kept.may_show_erased
            or (
                done.result().status >= HTTPStatus.INTERNAL_SERVER_ERROR
                or done.result().status in {HTTPStatus.TOO_MANY_REQUESTS, HTTPStatus.CONFLICT}
            )
        ):
            del self._kept[place]
            return
        kept.size = len(done.result().body)
        self._size += kept.size
        self._drop_old()

    def forget(self) -> None:
        """Drop every answer that may show what was erased."""
        for place, kept in list(self._kept.items()):
            if kept.is_receipt:
                continue
            if kept.answering.done():
                self._size -= kept.size
                del self._kept[place]
            else:
                kept.may_show_erased = True

    def _drop_old(self) -> None:
        """Drop what is too old, and the oldest while there is no room; not what is under way."""
        for _ in range(len(self._kept)):
            place, kept = next(iter(self._kept.items()))
            full = self._size > MAX_KEPT_BYTES or len(self._kept) > MAX_KEPT
            if kept.until > time.monotonic() and not full:
                return
            if kept.answering.done():
                self._size -= kept.size
                del self._kept[place]
            else:
                self._kept.move_to_end(place)
