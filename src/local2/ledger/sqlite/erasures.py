"""Erases what owners chose to erase, and anonymises records that were retired long ago.

Derived records are erased before their sources: if the process is killed in between, repeating the
request erases the rest. One transaction clears a record from all tables, and adds the task that
removes it from the index.
"""

import re
from collections.abc import AsyncIterator, Callable, Collection, Sequence
from datetime import datetime
from functools import partial

from local2.ledger.records import ACTIVE_RECORD_TASKS, NewRecord, stamp
from local2.ledger.sqlite.database import Database, Row, SqlConnection
from local2.ledger.sqlite.extraction import Sources
from local2.ledger.sqlite.record_rows import Cause, RecordRows
from local2.ledger.sqlite.rows import TenantRows, as_json
from local2.ledger.sqlite.tombstones import Selections, Tombstones
from local2.ledger.transfer import (
    SAMPLES,
    Anonymised,
    Erased,
    ErasureOptions,
    Selected,
    Selection,
    Traces,
    Unindexed,
)
from local2.protocol.envelope import new_id

ROWS_PER_TRANSACTION = 2_000
"""Maximum number of rows erased in one transaction; all other writes wait for it."""
MERGED_PAGES = 1_000
"""Number of pages of the full-text index merged in one transaction."""
MAX_MERGES = 10_000
"""Maximum number of merging transactions; merging may not end while others write."""
REDACTED = "[REDACTED]"
WORD = re.compile(r"\w+")
SAMPLE_WORDS = 5
"""Number of leading words with which the full-text index is searched for an erased text."""


class Erasures:
    """One tenant's erased and anonymised records."""

    def __init__(
        self,
        database: Database,
        rows: TenantRows,
        records: RecordRows,
        tombstones: Tombstones,
        clear_caches: Sequence[Callable[[], None]],
    ) -> None:
        """`clear_caches`: clear what other parts of the ledger hold in memory."""
        self._database = database
        self._rows = rows
        self._records = records
        self._tombstones = tombstones
        self._clear_caches = clear_caches
        self._sources = Sources(rows, records)
        self._selections = Selections(rows)

    async def select(self, selection: Selection) -> Selected:
        """Return the rows of a selection: whole turns, and everything derived from them alone."""
        return await self._rows.read(partial(self._selections.of, selection))

    async def erase(
        self, selection: Selection, rows: Sequence[int], how: ErasureOptions
    ) -> AsyncIterator[Erased]:
        """Erase the selected rows, and the notes, items, ratings and outputs of the selection."""
        for start in range(0, len(rows), ROWS_PER_TRANSACTION):
            part = rows[start : start + ROWS_PER_TRANSACTION]
            erased = await self._rows.write(partial(self._erase, selection, part, how))
            for forget in self._clear_caches:
                forget()
            yield erased
        if selection.includes_unreferenced:
            asked = {"owner": selection.owner, "session_id": selection.session_id}
            while await self._rows.change("drop_items_of", **asked, limit=ROWS_PER_TRANSACTION):
                pass
        await self._rows.write(partial(self._finish_erasure, selection, how, len(rows)))

    async def chosen_among(self, digests: Collection[str]) -> list[tuple[Selection, str]]:
        """Return the selections that have these digests, as far as matching data exists."""
        return await self._rows.read(lambda c: self._tombstones.chosen_among(c, digests))

    async def lift(self, records: Sequence[NewRecord]) -> None:
        """Allow these records to be stored again, whenever they were erased."""
        await self._rows.write(lambda c: self._tombstones.lift(c, records))

    async def traces(self, erased: Erased) -> Traces:
        """Count the traces of erased records that are still found."""
        return await self._rows.read(partial(self._traces, erased))

    async def scrub(self) -> None:
        """Remove deleted content from the files, including the full-text index.

        Raises:
            StorageError: Another process reads the file, such as a sqlite3 shell or a backup.
        """
        pages = -MERGED_PAGES  # negative: merges every segment, and not only those that are due
        for _ in range(MAX_MERGES):
            if await self._rows.write(partial(self._merge, pages)):
                break
            pages = MERGED_PAGES
        await self._database.truncate()

    async def anonymise(
        self, *, before: datetime, limit: int, agent: str, at: datetime
    ) -> list[Anonymised]:
        """Clear content and identity of up to `limit` records that were retired before a time."""
        return await self._rows.write(partial(self._anonymise, agent, at, stamp(before), limit))

    async def count_to_anonymise(self, before: datetime) -> int:
        """Return how many records were retired before a time, and are not anonymised yet."""
        row = await self._rows.one("count_to_anonymise", before=stamp(before))
        return int(row["due"]) if row else 0

    def _erase(
        self,
        selection: Selection,
        rows: Sequence[int],
        how: ErasureOptions,
        connection: SqlConnection,
    ) -> Erased:
        numbers = as_json(rows)
        found = self._rows.execute(connection, "to_erase", rows=numbers).fetchall()
        ids = [row["id"] for row in found]
        if not how.allow_again:
            self._tombstones.add(connection, selection, found, how)
        self._remove_from_sources(connection, ids)
        self._clear(connection, rows, ids)
        erased = {"ids": as_json(ids)}
        self._rows.execute(connection, "drop_items_found_by", **erased)
        merged = self._rows.execute(connection, "merged_into", **erased).fetchall()
        for statement in ("audit_of_replaced", "replaced_by_nothing", "drop_audit"):
            self._rows.execute(connection, statement, **erased)
        for statement in ("drop_relations", "drop_relations_to"):
            self._rows.execute(connection, statement, **erased)
        owner, keys = selection.owner, [row["key"] for row in found if row["key"]]
        self._rows.execute(connection, "drop_outputs", owner=owner, keys=as_json(keys))
        asked = as_json([row["query_id"] for row in found if row["query_id"]])
        self._rows.execute(connection, "drop_waiting_ratings", owner=owner, query_ids=asked)
        self._rows.execute(connection, "erase_records", rows=numbers, at=stamp(how.at))
        self._restore_merged(connection, merged, how)
        unindexed = tuple(Unindexed(row["row"], row["id"]) for row in found if row["indexed"])
        leaving = ({"row": one.row, "id": one.id} for one in unindexed)
        self._rows.execute_each(connection, "unindex_as", leaving)
        texts = [row["content"] for row in found if row["content"].strip()]
        step = max(1, len(texts) // SAMPLES)
        return Erased(
            rows=tuple(rows),
            ids=tuple(id_ for row in found for id_ in (row["id"], row["alias"]) if id_),
            unindexed=unindexed,
            samples=tuple(texts[::step][:SAMPLES]),
        )

    def _clear(self, connection: SqlConnection, rows: Sequence[int], ids: Sequence[str]) -> None:
        """Delete the rows of other tables that belong to these records."""
        numbers = as_json(rows)
        for statement in ("drop_vectors", "drop_features", "drop_access"):
            self._rows.execute(connection, statement, rows=numbers)
        self._rows.execute(
            connection, "drop_tasks", rows=numbers, kinds=as_json(ACTIVE_RECORD_TASKS)
        )
        self._rows.execute(connection, "drop_ratings", ids=as_json(ids))

    def _restore_merged(
        self, connection: SqlConnection, merged: Sequence[Row], how: ErasureOptions
    ) -> None:
        """Make facts active again that had been merged into an erased one."""
        reason = "what it was merged into was erased"
        cause = Cause(agent=None, superseded_by="", at=how.at, reason=reason)
        for row in merged:
            if self._records.restore(connection, row):
                self._records.add_to_audit(
                    connection, "undone", row["id"], cause, {"action": "merged"}
                )

    def _remove_from_sources(self, connection: SqlConnection, ids: Sequence[str]) -> None:
        """Remove erased messages from the sources of facts that also have other sources."""
        erased = set(ids)
        facts = self._rows.execute(connection, "extracted_from_erased", ids=as_json(ids)).fetchall()
        for row in facts:
            self._sources.remove(connection, row["id"], erased, ())

    def _finish_erasure(
        self, selection: Selection, how: ErasureOptions, records: int, connection: SqlConnection
    ) -> None:
        if how.allow_again:
            self._tombstones.lift_all(connection, selection)
        elif selection.includes_unreferenced:
            self._tombstones.add_selection(connection, selection, how)
        owner = selection.owner
        if selection.includes_unreferenced:
            asked = {"owner": owner, "session_id": selection.session_id}
            self._rows.execute(connection, "drop_notes", **asked)
            self._rows.execute(connection, "drop_ratings_of", **asked)
        if selection.whole_owner:
            self._rows.execute(connection, "drop_outputs_of", owner=owner)
        cause = Cause(agent=None, superseded_by="", at=how.at, why="erased")
        self._records.add_to_audit(connection, "erased", new_id(), cause, {"records": records})

    def _traces(self, erased: Erased, connection: SqlConnection) -> Traces:
        ids, rows = as_json(erased.ids), as_json(erased.rows)
        found = self._rows.execute(connection, "traces", ids=ids, rows=rows).fetchone()
        texts = 0
        for sample in erased.samples:
            if words := WORD.findall(sample)[:SAMPLE_WORDS]:
                match = f'{{content}}: "{" ".join(words)}"'
                asked = self._rows.execute(connection, "text_traces", match=match, rows=rows)
                texts += asked.fetchone()["found"]
        return Traces(
            ids=found["ids"],
            references=found["references_"],
            vectors=found["vectors"],
            texts=texts,
        )

    def _merge(self, pages: int, connection: SqlConnection) -> bool:
        """Merge a part of the full-text index; return whether all is merged."""
        before = connection.total_changes
        self._rows.execute(connection, "merge_text", pages=pages)
        return connection.total_changes - before < 2  # noqa: PLR2004 - as FTS5 documents it

    def _anonymise(
        self, agent: str, at: datetime, before: str, limit: int, connection: SqlConnection
    ) -> list[Anonymised]:
        asked = {"before": before, "limit": limit}
        found = self._rows.execute(connection, "to_anonymise", **asked).fetchall()
        rows, ids = [row["row"] for row in found], [row["id"] for row in found]
        self._clear(connection, rows, ids)
        self._rows.execute(connection, "clear_audit", ids=as_json(ids))
        self._rows.execute(connection, "anonymise_records", rows=as_json(rows), redacted=REDACTED)
        cause = Cause(agent=agent, superseded_by="", at=at, why="anonymised")
        for id_ in ids:
            self._records.add_to_audit(connection, "anonymised", id_, cause, {})
        return [Anonymised(row["id"], row["kind"]) for row in found]
