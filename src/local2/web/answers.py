"""Answers over HTTP: JSON, and errors as problem details (RFC 9457) with the codes of the bus."""

import math
from collections.abc import Mapping
from http import HTTPStatus
from typing import Any, NamedTuple

import msgspec
from starlette.responses import Response

from local2.errors import (
    BusTimeoutError,
    ErrorCode,
    ForbiddenError,
    InvalidArgumentsError,
    Local2Error,
)
from local2.protocol.payloads import ErrorReply

JSON, PROBLEM = "application/json", "application/problem+json"
PRIVATE = {"Cache-Control": "no-store", "X-Content-Type-Options": "nosniff"}
"""Headers of every answer: nobody between server and client keeps memories, or guesses a type."""
STATUS_BY_CODE: Mapping[ErrorCode, HTTPStatus] = {
    "bad_request": HTTPStatus.BAD_REQUEST,
    "invalid_arguments": HTTPStatus.UNPROCESSABLE_ENTITY,
    "invalid_configuration": HTTPStatus.INTERNAL_SERVER_ERROR,
    "unknown_tool": HTTPStatus.NOT_FOUND,
    "too_large": HTTPStatus.REQUEST_ENTITY_TOO_LARGE,
    "deadline_exceeded": HTTPStatus.GATEWAY_TIMEOUT,
    "cancelled": HTTPStatus.CONFLICT,
    "forbidden": HTTPStatus.FORBIDDEN,
    "unavailable": HTTPStatus.SERVICE_UNAVAILABLE,
    "overloaded": HTTPStatus.TOO_MANY_REQUESTS,
    "quota_exceeded": HTTPStatus.FORBIDDEN,
    "embedder_mismatch": HTTPStatus.SERVICE_UNAVAILABLE,
    "index_damaged": HTTPStatus.SERVICE_UNAVAILABLE,
    "tool_failed": HTTPStatus.BAD_GATEWAY,
    "internal": HTTPStatus.INTERNAL_SERVER_ERROR,
}


class UnauthorizedError(ForbiddenError):
    """The request carries no token, or not one that can be valid."""


class NotFoundError(InvalidArgumentsError):
    """The caller has no memory with this id."""

    def __init__(self) -> None:
        super().__init__("You have no memory with this id.")


class Problem(msgspec.Struct, kw_only=True, omit_defaults=True):
    """Why a request failed, and what to do. `retry_after`: seconds until a retry may succeed."""

    type: str
    title: str
    status: int
    detail: str
    code: ErrorCode
    retry_after: float | None = None


class HttpAnswer(NamedTuple):
    """The answer to a request, as it can also be sent again."""

    status: int
    body: bytes
    media_type: str = JSON
    headers: Mapping[str, str] = {}

    @classmethod
    def with_value(cls, value: Any) -> "HttpAnswer":
        return cls(HTTPStatus.OK, msgspec.json.encode(value))

    @classmethod
    def for_error(cls, error: Local2Error) -> "HttpAnswer":
        status = None
        headers = {}
        if isinstance(error, UnauthorizedError):
            status = HTTPStatus.UNAUTHORIZED
            headers["WWW-Authenticate"] = "Bearer"
        elif isinstance(error, NotFoundError):
            status = HTTPStatus.NOT_FOUND
        elif isinstance(error, BusTimeoutError):
            status = HTTPStatus.GATEWAY_TIMEOUT
        return cls.for_problem(ErrorReply.of(error), status, headers)

    @classmethod
    def for_problem(
        cls,
        error: ErrorReply,
        status: HTTPStatus | None = None,
        headers: Mapping[str, str] | None = None,
    ) -> "HttpAnswer":
        """The answer with an error; its code decides the status if none is given."""
        status = status or STATUS_BY_CODE[error.code]
        problem = Problem(
            type=f"urn:local2:{error.code}",
            title=error.code.replace("_", " ").capitalize(),
            status=status,
            detail=error.message,
            code=error.code,
            retry_after=error.retry_after,
        )
        sent = dict(headers or {})
        if error.retry_after is not None:
            sent["Retry-After"] = str(math.ceil(error.retry_after))
        return cls(status, msgspec.json.encode(problem), PROBLEM, sent)

    def response(self) -> Response:
        headers = {**self.headers, **PRIVATE}
        return Response(self.body, self.status, headers, media_type=self.media_type)
