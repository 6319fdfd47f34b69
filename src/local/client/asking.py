"""Asking the memory's services, which answer with a payload or with an error."""

from typing import TypeVar

import msgspec

from local.bus.connection import Connection
from local.bus.identity import bearer
from local.bus.participant import ERROR_CODE
from local.errors import (
    BadRequestError,
    BusError,
    ForbiddenError,
    InvalidArgumentsError,
    Local2Error,
    OverloadedError,
    QuotaError,
    StorageError,
    TooLargeError,
)
from local.protocol.envelope import Sender, decode, encode, seal
from local.protocol.payloads import ErrorReply

T = TypeVar("T")

CLIENT = Sender(agent="client")


async def ask(  # noqa: PLR0913 - what a request consists of
    bus: Connection,
    subject: str,
    payload: msgspec.Struct,
    into: type[T],
    caller: Sender = CLIENT,
    *,
    timeout: float | None = None,  # noqa: ASYNC109 - the caller chooses it
) -> T:
    """Ask, and return the payload of the answer.

    Raises:
        RequestError: What was asked for is refused.
        BusError: Nobody answers, or not with such a payload.
    """
    request = seal(
        payload,
        type="request",
        source=caller.agent or "client",
        user=caller.user,
        session_id=caller.session_id,
    )
    answer = await bus.request(
        subject, encode(request), timeout=timeout, headers=bearer(caller.token)
    )
    code = (answer.headers or {}).get(ERROR_CODE)
    if code is None:
        return decode(answer.data, into).payload
    problem = decode(answer.data, ErrorReply).payload.message
    raise _ERRORS.get(code, BusError)(problem)


_ERRORS: dict[str, type[Local2Error]] = {
    error.code: error
    for error in (
        BadRequestError,
        InvalidArgumentsError,
        ForbiddenError,
        OverloadedError,
        QuotaError,
        StorageError,
        TooLargeError,
    )
}
