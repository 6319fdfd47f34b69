"""Links that open the page of a server: each signs in once, within an hour, while it runs.

The server keeps in a file what makes its links. Only its user can read that; `local2 web --link`
makes another link of it, for a second browser, or when the first link has expired.
"""

import os
import secrets
from contextlib import suppress
from pathlib import Path
from typing import Self
from urllib.parse import urlencode

import msgspec
from itsdangerous import BadSignature, URLSafeTimedSerializer

from local2.atomic_file import PRIVATE_FILE, write_atomically
from local2.errors import ConfigError, UnwritableError
from local2.home import is_alive, make_private

PAGE_FILE = "page.json"
SIGN_IN_PATH = "/sign-in"
LINK_SECONDS = 3_600
"""Seconds for which a link works, once."""


class PageLinks(msgspec.Struct, frozen=True, kw_only=True):
    """Makes and reads the links of one server.

    `url`: its address. `secret`: signs the links; None with accounts, where the page asks for a
    token instead.
    """

    url: str
    secret: str | None

    @classmethod
    def for_server(cls, url: str, *, has_accounts: bool) -> Self:
        """Links of a server that starts."""
        return cls(url=url, secret=None if has_accounts else secrets.token_urlsafe(32))

    def make_link(self) -> str:
        """Make a link that signs in; with accounts, the address where a token is asked for."""
        if self.secret is None:
            return f"{self.url}/"
        key = self._serializer(self.secret).dumps(secrets.token_urlsafe(12))
        return f"{self.url}{SIGN_IN_PATH}?{urlencode({'key': key})}"

    def number_of(self, key: str) -> str | None:
        """What identifies the link with this key; None if it is not one of these, or has expired.

        The key itself does not identify it: the same signature can be spelled in several ways.
        """
        if self.secret is None:
            return None
        try:
            number: str = self._serializer(self.secret).loads(key, max_age=LINK_SECONDS)
        except BadSignature:
            return None
        return number

    @staticmethod
    def _serializer(secret: str) -> URLSafeTimedSerializer:
        return URLSafeTimedSerializer(secret, salt="local2.link")


class ServedPage(msgspec.Struct, frozen=True, kw_only=True):
    """The content of the file: the links of a server, and its process."""

    links: PageLinks
    pid: int


def store_links(data_dir: Path, links: PageLinks) -> None:
    """Store what makes the links of this process, in the place of those of an earlier one.

    The file stays behind when the process ends, which its number then shows.

    Raises:
        UnwritableError: The file cannot be written.
    """
    served = ServedPage(links=links, pid=os.getpid())
    try:
        make_private(data_dir)
        write_atomically(data_dir / PAGE_FILE, msgspec.json.encode(served), mode=PRIVATE_FILE)
    except OSError as error:
        raise UnwritableError(data_dir, error) from error


def links_of_served_page(data_dir: Path) -> PageLinks:
    """What makes the links of the page that is served.

    Raises:
        ConfigError: No page is served.
    """
    served = None
    with suppress(OSError, msgspec.MsgspecError):
        content = (data_dir / PAGE_FILE).read_bytes()
        served = msgspec.json.decode(content, type=ServedPage)
    if served is None or not is_alive(served.pid):
        raise ConfigError(
            f"No page of {data_dir.resolve()} is served.",
            remedy="Start it with `local2 web`, which prints a link.",
        )
    return served.links
