"""What is wrong where an endpoint does not answer as it should, and what to do about it."""

import re
from typing import Any

import httpx
import msgspec

from local.endpoint.address import Endpoint
from local.errors import EndpointError

KEY = {httpx.codes.UNAUTHORIZED, httpx.codes.FORBIDDEN}
PASSING = {
    httpx.codes.PAYMENT_REQUIRED,
    httpx.codes.REQUEST_TIMEOUT,
    httpx.codes.CONFLICT,
    httpx.codes.TOO_EARLY,
    httpx.codes.TOO_MANY_REQUESTS,
}
"""Client errors which say nothing of the request itself."""
LONGEST = 2_000
"""Characters of what an endpoint says that are read."""
BASE_URL = "openai_url is the base URL, such as http://127.0.0.1:8080/v1"
_MISSING = re.compile(
    r"\bmodel\b.{0,120}\b(not found|not_found|(does )?not exist)|model_not_found|"
    r"(no such|unknown|invalid|not a valid) model\b",
    re.IGNORECASE,
)
"""What endpoints write that lack a model; some do so with status 400."""
_TOO_LARGE = re.compile(
    r"context.?(length|size|window|limit)|too (large|long|many tokens)|\(413\)|"
    r"(max|less than|exceeds?)\b.{0,40}\btokens|physical batch size",
    re.IGNORECASE,
)
"""What endpoints write when a text is too long."""
_QUOTA_USED_UP = re.compile(r"insufficient_quota|billing|credit", re.IGNORECASE)


class _Problem(msgspec.Struct, frozen=True):
    message: Any = None
    code: Any = None
    param: Any = None


class _Answer(msgspec.Struct, frozen=True):
    error: _Problem | str | None = None
    message: str | None = None
    detail: Any = None


def unreachable(endpoint: Endpoint, error: Exception) -> EndpointError:
    return EndpointError(
        "unreachable",
        f"No answer from {endpoint.shown} ({type(error).__name__}).",
        remedy=f"Start it, or correct openai_url in {endpoint.settings}.",
        again=True,
    )


def silent(endpoint: Endpoint, seconds: float) -> EndpointError:
    return EndpointError(
        "silent",
        f"{endpoint.shown} did not answer within {seconds:g} s.",
        remedy="It hangs, or has too much to do: see its log, or ask again later.",
    )


def unreadable(endpoint: Endpoint, error: Exception) -> EndpointError:
    """The answer itself may hold memories, so it is not shown."""
    return EndpointError(
        "failed",
        f"{endpoint.shown} sent an answer that cannot be read ({type(error).__name__}).",
        remedy=f"See whether it speaks OpenAI's API: {BASE_URL}.",
    )


def failure(endpoint: Endpoint, status: int, content: bytes, model: str) -> EndpointError:
    """What an answer with an error status means."""
    said = endpoint.without_key(_said(content))
    refused = httpx.codes.is_client_error(status) and status not in PASSING
    if status in KEY:
        return _key_refused(endpoint, status, model)
    if status == httpx.codes.NOT_FOUND or (refused and _MISSING.search(said)):
        return _missing(endpoint, status, said, model)
    if refused:
        message = f"{model} at {endpoint.shown} refused the request ({status})."
        return EndpointError("refused", message, said=said)
    return _failed(endpoint, status, said)


def is_too_large(error: EndpointError) -> bool:
    """Whether the endpoint refused a text for its length."""
    return error.kind == "refused" and bool(_TOO_LARGE.search(f"{error.message} {error.said}"))


def _failed(endpoint: Endpoint, status: int, said: str) -> EndpointError:
    """Of a request that may well be answered another time."""
    limited = status == httpx.codes.TOO_MANY_REQUESTS
    if status == httpx.codes.PAYMENT_REQUIRED or (limited and _QUOTA_USED_UP.search(said)):
        return EndpointError(
            "limited",
            f"The account at {endpoint.shown} has nothing left ({status}).",
            remedy="See its plan and its billing.",
        )
    if limited:
        message = f"{endpoint.shown} is asked too much ({status})."
        return EndpointError("limited", message, remedy="Ask again later.", again=True)
    if httpx.codes.is_redirect(status):
        return EndpointError(
            "failed",
            f"{endpoint.shown} redirects to another address ({status}).",
            remedy=f"Correct openai_url in {endpoint.settings}.",
        )
    message = f"{endpoint.shown} failed ({status})."
    return EndpointError("failed", message, said=said, again=True, remedy="Ask again later.")


def _key_refused(endpoint: Endpoint, status: int, model: str) -> EndpointError:
    """What the endpoint says may hold a part of the key, so it is not shown."""
    if endpoint.key is None:
        return EndpointError(
            "key",
            f"{endpoint.shown} wants a key ({status}).",
            remedy=f"Name it by openai_key in {endpoint.settings}.",
        )
    return EndpointError(
        "key",
        f"{endpoint.shown} refused the key ({status}).",
        remedy=f"Correct what openai_key in {endpoint.settings} names, or let the key use {model}; "
        "then start the stack again.",
    )


def _missing(endpoint: Endpoint, status: int, said: str, model: str) -> EndpointError:
    if _MISSING.search(said):
        return EndpointError(
            "model",
            f"{endpoint.shown} does not have the model {model} ({status}).",
            remedy=f"Name one that it has in {endpoint.settings}.",
        )
    return EndpointError(
        "model",
        f"{endpoint.shown} has no model {model}, or is no such address ({status}).",
        remedy=f"Name a model that it has in {endpoint.settings}; {BASE_URL}.",
    )


def _said(content: bytes) -> str:
    """The endpoint's own words; nothing of an answer that is no JSON, as of a proxy between."""
    try:
        answer = msgspec.json.decode(content, type=_Answer | list[_Answer])
    except (msgspec.MsgspecError, RecursionError):
        return ""
    if isinstance(answer, list):
        answer = answer[0] if answer else _Answer()
    problem = answer.error
    if isinstance(problem, _Problem):
        parts = (problem.message, problem.code, problem.param)
    else:
        parts = (problem, answer.message, answer.detail)
    return " ".join(str(part) for part in parts if part)[:LONGEST]
