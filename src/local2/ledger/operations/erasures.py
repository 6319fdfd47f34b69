"""Finds and erases what owners chose to erase, and anonymises what was retired long ago.

Derived records are erased before their sources: if the process is killed in between, repeating the
request erases the rest. One transaction clears a record from all tables, and adds the task that
removes it from the index.
"""

import json
import re
from collections import Counter
from collections.abc import AsyncIterator, Callable, Collection, Iterable, Sequence
from datetime import datetime

from local2.keys import fold_topic
from local2.ledger.engines import Database, Row
from local2.ledger.erasing import (
    SAMPLES,
    Anonymised,
    Erased,
    ErasureOptions,
    Selected,
    Selection,
    Traces,
    Unindexed,
)
from local2.ledger.operations.extraction import remove_sources
from local2.ledger.operations.places import place_word
from local2.ledger.operations.records import Cause, add_to_audit, stand_alone, without_names
from local2.ledger.operations.showings import drop_showings
from local2.ledger.operations.tombstones import (
    add_tombstone_of,
    add_tombstones,
    chosen_among,
    lift_tombstones,
    lift_tombstones_of,
)
from local2.ledger.operations.transactions import (
    Part,
    TenantRows,
    Transaction,
    as_json,
    reads,
    records_at,
    writes,
)
from local2.ledger.records import ACTIVE_RECORD_TASKS, ERASED, NewRecord, Record, stamp
from local2.ledger.search import Place
from local2.protocol.envelope import new_id
from local2.protocol.memories import Kind

SESSION_KINDS: tuple[Kind, ...] = (
    "chat_message",
    "tool_output",
    "output_part",
    "transcript",
    "episode",
    "fact",
)
USER_KINDS: tuple[Kind, ...] = ("fact", "note", "episode")
"""Kinds that may belong to the user rather than to a session."""
DISPLAY_NAMES: dict[str, str] = {
    "chat_message": "messages",
    "transcript": "messages",
    "tool_output": "tool results",
    "output_part": "parts of long tool outputs",
    "episode": "episodes",
    "note": "saved notes",
    "fact": "facts",
    "document_chunk": "document chunks",
}
"""User-facing names of the kinds of records."""
ROWS_PER_TRANSACTION = 2_000
"""Maximum number of rows erased in one transaction; all other writes wait for it."""
REDACTED = "[REDACTED]"
WORD = re.compile(r"\w+")
SAMPLE_WORDS = 5
"""Number of leading words with which the full-text index is searched for an erased text."""


class Erasures(Part):
    """One tenant's erased and anonymised records."""

    def __init__(
        self,
        database: Database,
        rows: TenantRows,
        clear_caches: Sequence[Callable[[], None]],
    ) -> None:
        """`clear_caches`: clear what other parts of the ledger hold in memory."""
        super().__init__(rows)
        self._database = database
        self._clear_caches = clear_caches

    @reads
    def select(self, tx: Transaction, selection: Selection) -> Selected:
        """The rows of a selection: whole turns, and everything derived from them alone.

        Derived records come before their sources.
        """
        owner = selection.owner
        if selection.id is not None:
            chosen = tx.execute("rows_of_id", owner=owner, id=selection.id)
        elif selection.topic is not None:
            topic = fold_topic(selection.topic)
            chosen = tx.execute("rows_of_topic", owner=owner, topic=topic)
        else:
            places = [Place("session", owner, kind) for kind in SESSION_KINDS]
            places += [Place("user", owner, kind) for kind in USER_KINDS]
            words = as_json([place_word(tx.tenant, place) for place in places])
            asked = {"places": words, "session_id": selection.session_id}
            chosen = tx.execute("rows_of_owner", owner=owner, **asked)
        new = [row["row"] for row in chosen]
        rows = dict.fromkeys(new)
        while new := [row for row in _dependent(tx, selection, new, rows) if row not in rows]:
            rows = dict.fromkeys((*new, *rows))
        if selection.scopes is not None:
            scopes = as_json(sorted(selection.scopes))
            found = tx.execute("rows_in_scopes", rows=as_json(list(rows)), scopes=scopes)
            rows = dict.fromkeys(row["row"] for row in found)
        to_erase = tx.execute("to_erase", rows=as_json(list(rows))).fetchall()
        counts = _counts_of_records(tx, owner, to_erase)
        if selection.is_by_sender:
            counts |= _counts_of_sender(tx, selection)
        return Selected(rows=tuple(rows), counts={k: n for k, n in counts.items() if n})

    async def erase(
        self, selection: Selection, rows: Sequence[int], how: ErasureOptions
    ) -> AsyncIterator[Erased]:
        """Erase the selected rows, and the notes, items, ratings and outputs of the selection."""
        records = 0
        for start in range(0, len(rows), ROWS_PER_TRANSACTION):
            part = rows[start : start + ROWS_PER_TRANSACTION]
            erased = await self._rows.write(_erase, selection, part, how)
            for forget in self._clear_caches:
                forget()
            records += len(erased.rows)
            yield erased
        asked = {"owner": selection.owner, "session_id": selection.session_id}
        if selection.is_by_sender:
            while items := await self._rows.change(
                "drop_items_of", **asked, limit=ROWS_PER_TRANSACTION
            ):
                yield Erased(counts={"items": items})

        def finish(tx: Transaction) -> Counter[str]:
            counts = _counts_of_sender(tx, selection) if selection.is_by_sender else Counter()
            if how.allow_again:
                lift_tombstones_of(tx, selection)
            elif selection.is_by_sender:
                add_tombstone_of(tx, selection, how)
            if selection.is_by_sender:
                tx.execute("drop_notes", **asked)
                tx.execute("drop_ratings_of", **asked)
                drop_showings(tx, tx.execute("showings_of_owner", **asked).fetchall())
            if selection.whole_owner:
                tx.execute("drop_outputs_of", owner=selection.owner)
            cause = Cause(agent=None, at=how.at)
            add_to_audit(tx, ERASED, new_id(), cause, {"records": records})
            return counts

        yield Erased(counts=await self._rows.write(finish))

    @reads
    def chosen_among(
        self, tx: Transaction, digests: Collection[str]
    ) -> list[tuple[Selection, str]]:
        """The selections that have these digests, as far as matching data exists."""
        return chosen_among(tx, digests)

    @writes
    def lift(self, tx: Transaction, records: Sequence[NewRecord]) -> None:
        """Allow these records to be stored again, whenever they were erased."""
        lift_tombstones(tx, records)

    @reads
    def traces(self, tx: Transaction, erased: Erased) -> Traces:
        """Count the traces of erased records that are still found."""
        ids, rows = as_json(erased.ids), as_json(erased.rows)
        found = tx.execute("traces", ids=ids, rows=rows).fetchone()
        texts = 0
        for sample in erased.samples:
            if words := WORD.findall(sample)[:SAMPLE_WORDS]:
                texts += tx.text.count_traces(tx, words, rows)
        return Traces(
            ids=found["ids"],
            references=found["references_"],
            vectors=found["vectors"],
            texts=texts,
        )

    async def scrub(self) -> None:
        """Remove deleted content from the files, including the full-text index.

        Raises:
            StorageError: Another process reads the file, such as a sqlite3 shell or a backup.
        """
        await self._database.scrub()

    @writes
    def anonymise(
        self, tx: Transaction, *, before: datetime, limit: int, agent: str, at: datetime
    ) -> list[Anonymised]:
        """Clear content and identity of up to `limit` records that were retired before a time."""
        asked = {"before": stamp(before), "limit": limit}
        found = tx.execute("to_anonymise", **asked).fetchall()
        rows, ids = [row["row"] for row in found], [row["id"] for row in found]
        _clear(tx, rows, ids)
        tx.execute("clear_audit", ids=as_json(ids))
        tx.execute("anonymise_records", rows=as_json(rows), redacted=REDACTED)
        cause = Cause(agent=agent, at=at)
        for id_ in ids:
            add_to_audit(tx, "anonymised", id_, cause, {})
        return [Anonymised(row["id"], row["kind"]) for row in found]

    @reads
    def to_anonymise(self, tx: Transaction, before: datetime, limit: int) -> list[Record]:
        """Records that were retired before a time, those that were retired first first."""
        asked = {"before": stamp(before), "limit": limit}
        found = tx.execute("to_anonymise", **asked).fetchall()
        return list(records_at(tx, [row["row"] for row in found]).values())

    @reads
    def count_to_anonymise(self, tx: Transaction, before: datetime) -> int:
        """How many records were retired before a time, and are not anonymised yet."""
        return int(tx.execute("count_to_anonymise", before=stamp(before)).fetchone()["due"])


def _dependent(
    tx: Transaction,
    selection: Selection,
    new: Iterable[int],
    rows: Iterable[int],
) -> list[int]:
    """The rows that are erased with others: of their turns, documents, outputs and derivations.

    `new` are the rows found last; `rows` are all rows so far.
    """
    asked = {"rows": as_json(list(new)), "owner": selection.owner}
    found = tx.execute("rows_of_turns", **asked).fetchall()
    found += tx.execute("rows_of_documents", **asked).fetchall()
    found += tx.execute("rows_of_outputs", **asked).fetchall()
    every = tx.execute("ids_of", rows=as_json(list(rows)))
    ids = as_json([row["id"] for row in every])
    derived = tx.execute("rows_derived", ids=ids, owner=selection.owner)
    return list(dict.fromkeys(row["row"] for row in (*derived.fetchall(), *found)))


def _erase(
    tx: Transaction, selection: Selection, rows: Sequence[int], how: ErasureOptions
) -> Erased:
    """Erase rows, but for those that somebody else has erased meanwhile."""
    found = tx.execute("to_erase", rows=as_json(rows)).fetchall()
    rows = [row["row"] for row in found]
    numbers, ids = as_json(rows), [row["id"] for row in found]
    counts = _counts_of_records(tx, selection.owner, found)
    if not how.allow_again:
        add_tombstones(tx, selection, found, how)
    erased = {"ids": as_json(ids)}
    gone = set(ids)
    for row in tx.execute("extracted_from_erased", **erased).fetchall():
        remove_sources(tx, row["id"], gone, ())  # these facts also have other sources
    _clear(tx, rows, ids)
    tx.execute("drop_shown_records", **erased)
    tx.execute("drop_items_found_by", **erased)
    merged = tx.execute("merged_into", **erased).fetchall()
    for statement in ("replaced_by_nothing", "drop_audit"):
        tx.execute(statement, **erased)
    for row in tx.execute("audit_naming", **erased).fetchall():
        detail = without_names(json.loads(row["detail"]), gone)
        tx.execute("set_audit_detail", row=row["row"], detail=as_json(detail))
    tx.execute("drop_audit_names", **erased)
    for statement in ("drop_relations", "drop_relations_to"):
        tx.execute(statement, **erased)
    owner, keys = selection.owner, [row["key"] for row in found if row["key"]]
    tx.execute("drop_outputs", owner=owner, keys=as_json(keys))
    asked = as_json([row["query_id"] for row in found if row["query_id"]])
    counts["ratings"] += tx.execute("drop_waiting_ratings", owner=owner, query_ids=asked).rowcount
    shown = tx.execute("showings_of_erased", **erased, owner=owner, query_ids=asked)
    drop_showings(tx, shown.fetchall())
    tx.execute("erase_records", rows=numbers, at=stamp(how.at))
    for row in merged:
        stand_alone(tx, row, how.at)
    unindexed = tuple(Unindexed(row["row"], row["id"]) for row in found if row["indexed"])
    leaving = ({"row": record.row, "id": record.id} for record in unindexed)
    tx.execute_each("unindex_as", leaving)
    texts = [row["content"] for row in found if row["content"].strip()]
    step = max(1, len(texts) // SAMPLES)  # samples are spread over all of them
    return Erased(
        rows=tuple(rows),
        ids=tuple(id_ for row in found for id_ in (row["id"], row["alias"]) if id_),
        unindexed=unindexed,
        samples=tuple(texts[::step][:SAMPLES]),
        counts=counts,
    )


def _counts_of_records(tx: Transaction, owner: str, found: Sequence[Row]) -> Counter[str]:
    """Count records, and what is erased with them, by user-facing name."""
    keys = as_json([row["key"] for row in found if row["key"]])
    outputs = tx.execute("count_outputs", owner=owner, keys=keys, every=False).fetchone()
    beside = tx.execute("count_beside", ids=as_json([row["id"] for row in found])).fetchone()
    counts = Counter(DISPLAY_NAMES[row["kind"]] for row in found)
    counts.update({"long tool outputs": outputs["outputs"], **dict(beside)})
    return counts


def _counts_of_sender(tx: Transaction, selection: Selection) -> Counter[str]:
    """Count what no record refers to, or what is left of it."""
    owner, session_id = selection.owner, selection.session_id
    counts = Counter(
        dict(tx.execute("count_others", owner=owner, session_id=session_id).fetchone())
    )
    if selection.whole_owner:
        asked = {"owner": owner, "keys": as_json([]), "every": True}
        counts["long tool outputs"] = tx.execute("count_outputs", **asked).fetchone()["outputs"]
    return counts


def _clear(tx: Transaction, rows: Sequence[int], ids: Sequence[str]) -> None:
    """Delete the rows of other tables that belong to these records."""
    numbers = as_json(rows)
    for statement in ("drop_vectors", "drop_features", "drop_access"):
        tx.execute(statement, rows=numbers)
    tx.execute("drop_tasks", rows=numbers, kinds=as_json(ACTIVE_RECORD_TASKS))
    tx.execute("drop_ratings", ids=as_json(ids))
