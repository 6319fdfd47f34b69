"""Where an endpoint is, and the key that it wants, which no error, log or answer shows."""

import os
from collections.abc import Mapping
from pathlib import Path

import httpx
import msgspec

from local.errors import ConfigError, without_credentials

LONGEST_KEY = 16_384
"""Bytes of a file that are read as a key."""


class Endpoint(msgspec.Struct, frozen=True, kw_only=True):
    """A base URL, and what is sent along to it; its representation does not show the key."""

    url: str
    key: str | None = None
    settings: str
    """The file that names it, for remedies."""

    def __repr__(self) -> str:
        return f"Endpoint({self.shown})"

    @property
    def shown(self) -> str:
        """For people."""
        return without_credentials(self.url)

    @property
    def headers(self) -> dict[str, str]:
        return {"Content-Type": "application/json", **authorization(self.key, "openai_key")}

    def at(self, path: str) -> httpx.URL:
        """The URL of an operation; a query of the base URL stays."""
        base = httpx.URL(self.url)
        return base.copy_with(path=f"{base.path.rstrip('/')}/{path}")

    def without_key(self, text: str) -> str:
        """A text of the endpoint's, which may repeat the key."""
        return text.replace(self.key, "…") if self.key else text


def endpoint_of(
    url: str | None, key: str | None, settings: str, environment: Mapping[str, str] = os.environ
) -> Endpoint:
    """The endpoint that settings name.

    Args:
        url: The base URL, such as http://127.0.0.1:8080/v1.
        key: The name of an environment variable or of a file, which has the key.
        settings: The file that names them.
        environment: Its variables.

    Raises:
        ConfigError: There is no URL, it is none, or the key is not there.
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
    """Read an HTTP URL.

    Raises:
        ConfigError: It is none; without the URL, which may hold a password.
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
    """The key of an environment variable, or else of a file.

    Raises:
        ConfigError: There is neither; without what was named, which may be a key itself.
    """
    if named is None:
        return None
    if key := environment.get(named, "").strip():
        return key
    try:
        with Path(named).expanduser().open("rb") as file:
            key = file.read(LONGEST_KEY).decode().strip()
    except (OSError, ValueError, RuntimeError):
        key = ""
    if not key:
        raise ConfigError(
            f"{setting} names no environment variable and no file with a key.",
            remedy="Name one, such as OPENAI_API_KEY; the key itself does not belong there.",
        )
    return key


def authorization(key: str | None, setting: str) -> dict[str, str]:
    """The header of a key.

    Raises:
        ConfigError: It cannot be sent.
    """
    if key is None:
        return {}
    if not (key.isascii() and key.isprintable()):
        raise ConfigError(f"{setting} has characters that no HTTP header may hold.")
    return {"Authorization": f"Bearer {key}"}
