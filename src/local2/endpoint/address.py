"""The address and key of an endpoint, and the errors for its failures.

No error, log or answer shows the key, or text of the endpoint that may contain a part of it.
"""

import os
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Literal

import httpx
import msgspec

from local2.errors import ConfigError, UnavailableError, abridged, without_credentials

MAX_KEY_BYTES = 16_384
"""Maximum number of bytes of a file that are read as a key."""
KEY_REFUSED = {httpx.codes.UNAUTHORIZED, httpx.codes.FORBIDDEN}
"""Statuses of a refused key."""
TEMPORARY = {
    httpx.codes.PAYMENT_REQUIRED,
    httpx.codes.REQUEST_TIMEOUT,
    httpx.codes.CONFLICT,
    httpx.codes.TOO_EARLY,
    httpx.codes.TOO_MANY_REQUESTS,
}
"""Client error statuses that are not caused by the request itself."""
MAX_REPLY_CHARACTERS = 2_000
"""Maximum number of characters kept of an endpoint's error text."""
BASE_URL = "openai_url is the base URL, such as http://127.0.0.1:8080/v1"
_MISSING_MODEL = re.compile(
    r"\bmodel\b.{0,120}\b(not found|not_found|(does )?not exist)|model_not_found|"
    r"(no such|unknown|invalid|not a valid) model\b",
    re.IGNORECASE,
)
"""Error texts of endpoints that lack a model; some have status 400."""
_TOO_LARGE = re.compile(
    r"context.?(length|size|window|limit)|too (large|long|many tokens)|\(413\)|"
    r"(max|less than|exceeds?)\b.{0,40}\btokens|physical batch size",
    re.IGNORECASE,
)
"""Error texts of endpoints for a text that is too long."""
_QUOTA_USED_UP = re.compile(r"insufficient_quota|billing|credit", re.IGNORECASE)
EndpointFailure = Literal["unreachable", "silent", "key", "model", "limited", "refused", "failed"]


class EndpointError(UnavailableError):
    """A failed request; `reply` is the endpoint's own text, which must not be logged."""

    def __init__(
        self,
        kind: EndpointFailure,
        message: str,
        *,
        remedy: str | None = None,
        reply: str = "",
        retryable: bool = False,
    ) -> None:
        full = f"{message[:-1]}: {abridged(reply).rstrip('.')}." if reply else message
        super().__init__(full, remedy=remedy, logged=message)
        self.kind = kind
        self.reply = reply
        self.retryable = retryable
        """Whether a retry may succeed."""


class Endpoint(msgspec.Struct, frozen=True, kw_only=True):
    """A base URL with its key; the representation does not show the key."""

    url: str
    key: str | None = None
    settings: str
    """The settings file that names the endpoint, for remedies."""

    def __repr__(self) -> str:
        return f"Endpoint({self.shown})"

    @property
    def shown(self) -> str:
        """The URL without credentials, for messages."""
        return without_credentials(self.url)

    @property
    def headers(self) -> dict[str, str]:
        return {"Content-Type": "application/json", **authorization(self.key, "openai_key")}

    def at(self, path: str) -> httpx.URL:
        """The URL of an operation, including the query of the base URL."""
        base = httpx.URL(self.url)
        return base.copy_with(path=f"{base.path.rstrip('/')}/{path}")

    def without_key(self, text: str) -> str:
        """Remove the key from a text of the endpoint, which may repeat it."""
        return text.replace(self.key, "…") if self.key else text


def endpoint_of(
    url: str | None, key: str | None, settings: str, environment: Mapping[str, str] = os.environ
) -> Endpoint:
    """Read the endpoint that settings name.

    Args:
        url: The base URL, such as http://127.0.0.1:8080/v1.
        key: Name of the environment variable or file that holds the key.
        settings: The settings file that names them.
        environment: The environment variables.

    Raises:
        ConfigError: The URL is missing or not valid, or the key is missing.
    """
    if url is None:
        raise ConfigError(
            f"{settings} names no endpoint.",
            remedy="Set openai_url there, such as http://127.0.0.1:8080/v1.",
        )
    http_url(url, f"openai_url in {settings}", example="http://127.0.0.1:8080/v1")
    read = read_key(key, f"openai_key in {settings}", environment)
    authorization(read, "The key that openai_key names")
    return Endpoint(url=url, key=read, settings=settings)


def http_url(url: str, setting: str, *, example: str) -> httpx.URL:
    """Parse an HTTP URL.

    Raises:
        ConfigError: It is not valid; the error omits the URL, which may contain a password.
    """
    try:
        parsed = httpx.URL(url)
    except httpx.InvalidURL:
        parsed = httpx.URL()
    if parsed.scheme not in {"http", "https"} or not parsed.host:
        raise ConfigError(
            f"{setting} is not an HTTP URL.", remedy=f"Give the whole URL, such as {example}."
        )
    return parsed


def read_key(named: str | None, setting: str, environment: Mapping[str, str]) -> str | None:
    """Read the key from an environment variable, or else from a file.

    Raises:
        ConfigError: There is no key; the error omits the name, which may be a key itself.
    """
    if named is None:
        return None
    if key := environment.get(named, "").strip():
        return key
    try:
        with Path(named).expanduser().open("rb") as file:
            key = file.read(MAX_KEY_BYTES).decode().strip()
    except (OSError, ValueError, RuntimeError):
        key = ""
    if not key:
        raise ConfigError(
            f"{setting} names no environment variable and no file with a key.",
            remedy="Name one, such as OPENAI_API_KEY; the key itself does not belong there.",
        )
    return key


def authorization(key: str | None, setting: str) -> dict[str, str]:
    """The authorization header for a key; without a key, no header.

    Raises:
        ConfigError: The key has characters that no header may contain.
    """
    if key is None:
        return {}
    if not (key.isascii() and key.isprintable()):
        raise ConfigError(f"{setting} has characters that no HTTP header may contain.")
    return {"Authorization": f"Bearer {key}"}


class _Problem(msgspec.Struct, frozen=True):
    message: Any = None
    code: Any = None
    param: Any = None


class _Answer(msgspec.Struct, frozen=True):
    error: _Problem | str | None = None
    message: str | None = None
    detail: Any = None


def unreachable_error(endpoint: Endpoint, error: Exception) -> EndpointError:
    return EndpointError(
        "unreachable",
        f"No answer from {endpoint.shown} ({type(error).__name__}).",
        remedy=f"Start it, or correct openai_url in {endpoint.settings}.",
        retryable=True,
    )


def timeout_error(endpoint: Endpoint, seconds: float) -> EndpointError:
    return EndpointError(
        "silent",
        f"{endpoint.shown} did not answer within {seconds:g} s.",
        remedy="It hangs or is overloaded: see its log, or try again later.",
    )


def unreadable_error(endpoint: Endpoint, error: Exception) -> EndpointError:
    """Report an unreadable answer without its text, which may contain memories."""
    return EndpointError(
        "failed",
        f"{endpoint.shown} sent an answer that cannot be read ({type(error).__name__}).",
        remedy=f"Check that it speaks OpenAI's API: {BASE_URL}.",
    )


def status_error(endpoint: Endpoint, status: int, content: bytes, model: str) -> EndpointError:
    """Tell what an error status means, and what to do about it."""
    reply = endpoint.without_key(_reply_text(content))
    refused = httpx.codes.is_client_error(status) and status not in TEMPORARY
    if status in KEY_REFUSED:  # without the endpoint's text, which may quote the key
        if endpoint.key is None:
            return EndpointError(
                "key",
                f"{endpoint.shown} requires a key ({status}).",
                remedy=f"Set openai_key in {endpoint.settings}.",
            )
        return EndpointError(
            "key",
            f"{endpoint.shown} refused the key ({status}).",
            remedy=f"Correct the key that openai_key in {endpoint.settings} names, or give it "
            f"access to {model or 'its models'}; then start the stack again.",
        )
    if status == httpx.codes.NOT_FOUND or (refused and _MISSING_MODEL.search(reply)):
        if _MISSING_MODEL.search(reply):
            return EndpointError(
                "model",
                f"{endpoint.shown} does not have the model {model} ({status}).",
                remedy=f"Name one that it has in {endpoint.settings}.",
            )
        return EndpointError(
            "model",
            f"{endpoint.shown} does not have the model {model}, or the address is wrong "
            f"({status}).",
            remedy=f"Name a model that it has in {endpoint.settings}; {BASE_URL}.",
        )
    if refused:
        message = f"{model} at {endpoint.shown} refused the request ({status})."
        return EndpointError("refused", message, reply=reply)
    # What may succeed at another time.
    limited = status == httpx.codes.TOO_MANY_REQUESTS
    if status == httpx.codes.PAYMENT_REQUIRED or (limited and _QUOTA_USED_UP.search(reply)):
        return EndpointError(
            "limited",
            f"The account at {endpoint.shown} has no quota left ({status}).",
            remedy="Check its plan and billing.",
        )
    if limited:
        message = f"{endpoint.shown} receives too many requests ({status})."
        return EndpointError("limited", message, remedy="Try again later.", retryable=True)
    if httpx.codes.is_redirect(status):
        return EndpointError(
            "failed",
            f"{endpoint.shown} redirects to another address ({status}).",
            remedy=f"Correct openai_url in {endpoint.settings}.",
        )
    message = f"{endpoint.shown} failed ({status})."
    return EndpointError("failed", message, reply=reply, retryable=True, remedy="Try again later.")


def is_too_large(error: EndpointError) -> bool:
    """Whether the endpoint refused a text because of its length."""
    return error.kind == "refused" and bool(_TOO_LARGE.search(f"{error.message} {error.reply}"))


def _reply_text(content: bytes) -> str:
    """The endpoint's own error text; empty if the answer is not JSON, as from a proxy."""
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
    return " ".join(str(part) for part in parts if part)[:MAX_REPLY_CHARACTERS]
