"""What crosses the ledger's door when records leave a memory or come into one."""

from datetime import datetime

import msgspec

from local.errors import BadRequestError
from local.ledger.search import Place
from local.protocol.portable import SECTIONS


class ExportFilter(msgspec.Struct, frozen=True, kw_only=True):
    """What is exported: everything, or what lies in places of one owner, or of one session of his.

    `talks`: whether notes, ratings and tool outputs belong to it.
    """

    places: tuple[Place, ...] | None = None
    owner: str = ""
    session_id: str | None = None
    talks: bool = True
    vectors: bool = False


class ExportCursor(msgspec.Struct, frozen=True, array_like=True, forbid_unknown_fields=True):
    """Where an export goes on: in a section, after a row or a relation.

    `skip` are bytes of the next line that were exported already.
    """

    section: str = SECTIONS[0]
    after: int | tuple[str, str, str] = 0
    skip: int = 0

    @classmethod
    def of(cls, text: str | None) -> "ExportCursor":
        """The cursor that a page named; the beginning, without one.

        Raises:
            BadRequestError: No page names such a cursor.
        """
        if text is None:
            return cls()
        try:
            cursor = msgspec.json.decode(text, type=cls)
        except msgspec.DecodeError as error:
            raise BadRequestError(f"cursor: {text!r} is none.") from error
        is_relation = isinstance(cursor.after, tuple)
        if cursor.section not in SECTIONS or is_relation != (cursor.section == "relation"):
            raise BadRequestError(f"cursor: {text!r} is none.")
        return cursor

    def text(self) -> str:
        return msgspec.json.encode(self).decode()


class Importing(msgspec.Struct, frozen=True, kw_only=True):
    """Who imports, and when."""

    user: str | None
    agent: str | None
    at: datetime
