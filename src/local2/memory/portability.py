"""Export records as lines of a file, whole or by scope, and import them.

An import may contain what any user of the tenant stated.
"""

import asyncio
from collections.abc import Sequence
from typing import get_args

from local2.ledger.ledger import Ledger
from local2.ledger.operations.exports import ExportCursor, ExportFilter
from local2.ledger.operations.imports import Importing
from local2.ledger.search import Place
from local2.memory.backlog import Backlog
from local2.memory.intake.episodes import EPISODE
from local2.memory.scopes import owner_in
from local2.protocol.envelope import Caller, Clock
from local2.protocol.maintenance import ExportPage, ExportRequest, ImportReport
from local2.protocol.memories import PERSONAL, Kind, OwnerScope
from local2.protocol.portable import stored_line

OF_SCOPE: dict[OwnerScope, tuple[OwnerScope, ...]] = {
    "session": ("session",),
    "user": ("session", "user"),
    "agent": ("agent",),
    "tenant": ("tenant",),
}
"""The scopes that an export of a scope includes: a user's records include the user's sessions."""


class Portability:
    """Exports a tenant's memory for one caller, and imports into it."""

    def __init__(self, ledger: Ledger, backlog: Backlog, caller: Caller, clock: Clock) -> None:
        self._ledger = ledger
        self._backlog = backlog
        self._caller = caller
        self._clock = clock

    async def export(self, request: ExportRequest) -> ExportPage:
        """The next page. The first page also has the number of records.

        Raises:
            BadRequestError: The cursor is not valid.
            InvalidArgumentsError: The scope needs an identity that the caller lacks.
            StorageError: The ledger cannot be read.
        """
        cursor = ExportCursor.of(request.cursor)
        wanted = ExportFilter(vectors=request.vectors)
        if request.scope is not None:
            owner = owner_in(request.scope, self._caller)
            places = [
                Place(scope, owner, kind)
                for scope in OF_SCOPE[request.scope]
                for kind in get_args(Kind)
            ]
            if request.scope == "session":
                places.append(Place("user", owner, EPISODE))  # by these its items are found
            wanted = ExportFilter(
                places=tuple(places),
                owner=owner,
                session_id=self._caller.session_id if request.scope == "session" else None,
                talks=request.scope in PERSONAL,
                vectors=request.vectors,
            )
        page = await self._ledger.exports.page(wanted, cursor)
        if request.cursor is None:
            page.records = await self._ledger.exports.count(wanted)
        return page

    async def import_lines(
        self, lines: Sequence[bytes], *, number: int = 1, dry_run: bool = False
    ) -> ImportReport:
        """Store the lines of an export in one transaction.

        `number`: the number of the first line, for error messages. Lines that break a rule of a
        write are left out, and reported.

        Raises:
            BadRequestError: A line is not a line of an export. The message has its number.
            StorageError: The ledger cannot be written.
        """
        read = await asyncio.to_thread(
            lambda: [stored_line(line, at) for at, line in enumerate(lines, number)]
        )
        by = Importing(user=self._caller.user, agent=self._caller.agent, at=self._clock())
        report = await self._ledger.imports.store(read, by, number=number, dry_run=dry_run)
        if not dry_run:
            self._backlog.wake("index", "unindex")
        return report
