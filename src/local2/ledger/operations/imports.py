"""Imports lines of an export file into the ledger; records whose ids exist stay as they are.

What no caller could store is refused, by the rules of a write. If two records cannot both be
active, the one with the later time stays active, and the other becomes history.
"""

import asyncio
from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from datetime import datetime
from typing import Any, Final, get_args

import msgspec

from local2.errors import quoted
from local2.keys import TOPIC_RULE, is_topic, is_user_topic
from local2.ledger.engines import NewVector
from local2.ledger.operations.records import (
    Cause,
    active_fact_of_topic,
    add_records,
    add_to_audit,
    is_there,
    name_in_audit,
    named_in,
    stand_alone,
    supersede,
    without_names,
)
from local2.ledger.operations.relations import MAX_RELATIONS, TYPES, full_end
from local2.ledger.operations.showings import Showing, add_showing
from local2.ledger.operations.tombstones import was_erased, was_id_erased, was_line_erased
from local2.ledger.operations.transactions import Part, TenantRows, Transaction, as_json, record_of
from local2.ledger.records import (
    ALSO_NAMES,
    DENIED,
    DERIVED_FROM,
    ERASED,
    NAMES,
    RELATION_TYPES,
    SHARES_ENTITY,
    STATES,
    Record,
    with_features,
)
from local2.ledger.stored_vectors import packed
from local2.protocol.conversation import is_blank
from local2.protocol.envelope import MAX_NAME
from local2.protocol.items import NOTHING, path_text
from local2.protocol.maintenance import Conflict, ImportReport, RefusedLine
from local2.protocol.memories import OwnerScope, RetirementReason
from local2.protocol.portable import (
    AccessLine,
    AuditLine,
    FeedbackLine,
    ItemLine,
    Line,
    NoteLine,
    OutputLine,
    PlaceLine,
    RecordLine,
    RelationLine,
    ShowingLine,
    Stored,
)
from local2.protocol.times import in_utc

REASON = "import"
"""The reason in the audit for records that an import retires."""
AWAITS = "awaits"
"""The action in the audit for records that an import will retire once it brings their successor."""
BETWEEN_RECORDS: Final = frozenset({*RELATION_TYPES, DERIVED_FROM, SHARES_ENTITY})
"""Relations whose target is a record; that of the others is a name or a statement."""
KNOWN_RELATIONS: Final = BETWEEN_RECORDS | {STATES, NAMES, ALSO_NAMES}
NAME_FIELDS: Final = (
    "id", "owner", "session_id", "query_id", "turn", "alias", "role", "agent", "user", "stated_by",
    "superseded_by", "record", "record_id", "at", "source", "target", "answer", "key", "run",
)  # fmt: skip
"""Fields that hold a name or an id, in lines of any type."""
OWN_SCOPES: Final[tuple[OwnerScope, ...]] = ("user", "session")
"""Scopes whose facts may have a key that begins with `user.`."""
OF_RECORDS = tuple(name for name in RecordLine.__struct_fields__ if name != "vector")


class Importing(msgspec.Struct, frozen=True, kw_only=True):
    """Who imports, and when."""

    user: str | None
    agent: str | None
    at: datetime


class Imports(Part):
    """One tenant's imports."""

    def __init__(
        self,
        rows: TenantRows,
        clear_caches: Sequence[Callable[[], None]],
    ) -> None:
        """`clear_caches`: clear what other parts of the ledger hold in memory."""
        super().__init__(rows)
        self._clear_caches = clear_caches

    async def store(
        self, lines: Sequence[Stored], by: Importing, *, number: int = 1, dry_run: bool = False
    ) -> ImportReport:
        """Store lines, all or none; with `dry_run`, store none and report what would be stored.

        Lines that break a rule are left out and reported by their numbers; `number` is that of the
        first line.
        """
        records = await asyncio.to_thread(_records_of, lines)

        def store(tx: Transaction) -> ImportReport:
            page = _Page(tx, by, records.values())
            for at, line in enumerate(lines, number):
                page.store(line, records, at)
            if dry_run:
                raise _DryRunError(page.report)
            return page.report

        try:
            return await self._rows.write(store)
        except _DryRunError as done:
            return done.report
        finally:
            for forget in self._clear_caches:
                forget()


def _records_of(lines: Sequence[Stored]) -> dict[str, Record]:
    """Make the records of the lines, by id; slow, because of their features."""
    records = {}
    for line in lines:
        if isinstance(line, RecordLine):
            columns = {name: getattr(line, name) for name in OF_RECORDS}
            for name, value in columns.items():
                if isinstance(value, datetime):
                    columns[name] = in_utc(value, name)
            records[line.id] = with_features(Record(**columns))
    return records


class _DryRunError(Exception):
    """Rolls the transaction back."""

    def __init__(self, report: ImportReport) -> None:
        super().__init__()
        self.report = report


class _Page:
    """Stores lines inside one transaction."""

    def __init__(
        self,
        tx: Transaction,
        by: Importing,
        records: Iterable[Record],
    ) -> None:
        self._tx = tx
        self._by = by
        named = {id_ for record in records for id_ in (record.id, record.superseded_by) if id_}
        self._awaiting = defaultdict[str, list[str]](list)
        """The ids of what awaits a record of the page, or a successor named in it, by its id."""
        for row in tx.execute("named_in_audit", action=AWAITS, ids=as_json(sorted(named))):
            self._awaiting[row["id"]].append(row["record_id"])
        self._vector_sizes: dict[str, int] = {}
        """In bytes, by embedder."""
        self.report = ImportReport(new={}, known={}, conflicts=[], refused=[])

    def store(self, line: Stored, records: dict[str, Record], number: int) -> None:
        """Store a line, and count its outcome."""
        problem = _broken_rule(line) or self._cycle(line) or self._excess(line)
        if problem is not None:
            self.report.refused.append(RefusedLine(line=number, problem=problem))
            return
        if isinstance(
            line, FeedbackLine | NoteLine | OutputLine | ItemLine | ShowingLine
        ) and was_line_erased(self._tx, line):
            if isinstance(line, ItemLine) and line.record:
                supersede(self._tx, line.record, self._cause(""))
            self.report.erased += 1
            return
        was_new = self._store(line, records)
        if was_new is not None:
            counts = self.report.new if was_new else self.report.known
            kind = str(line.__struct_config__.tag)
            counts[kind] = counts.get(kind, 0) + 1
        elif not isinstance(line, RecordLine):  # that of an erased record is counted as erased
            self.report.unplaced += 1

    def _cycle(self, line: Stored) -> str | None:
        """The problem if a record would, over others, replace itself; else None."""
        match line:
            case RecordLine(superseded_by=str(newer)):
                known = self._first_row("record_state", id=line.id)
                if known is not None and known["superseded_by"] is not None:
                    return None  # it stays as it is
                field, id_ = "superseded_by", line.id
            case RelationLine(relation="supersedes", source=newer, target=id_):
                later = self._tx.execute("versions", ids=as_json([newer])).fetchall()
                if id_ in {version["id"] for version in later}:
                    related = self._tx.execute("relations_of", id=newer, types=TYPES).fetchall()
                    if not any(
                        row["id"] == id_
                        and row["relation_type"] == "supersedes"
                        and row["incoming"]
                        for row in related
                    ):
                        return None  # it has replaced the source since
                field = "target"
            case _:
                return None
        cycle = self._first_row("replaced_in_turn", id=id_, newer=newer)
        return f"{field}: the records would replace each other in a circle." if cycle else None

    def _excess(self, line: Stored) -> str | None:
        """The problem if a record would have too many relations; else None."""
        if not isinstance(line, RelationLine) or line.relation not in RELATION_TYPES:
            return None
        full = full_end(self._tx, line.source, line.relation, line.target)
        if full is None:
            return None
        field = "source" if full == line.source else "target"
        return f"{field}: the record has {MAX_RELATIONS} relations already, the maximum."

    def _store(self, line: Stored, records: dict[str, Record]) -> bool | None:
        """Store a line; return whether it is new, None if it is erased, or lacks its records."""
        match line:
            case RecordLine():
                return self._store_record(line, records[line.id])
            case PlaceLine():
                if self._write_line("set_place", line):
                    return True
                are_there = is_there(self._tx, line.record) and is_there(self._tx, line.at)
                return False if are_there else None
            case RelationLine():
                if not is_there(self._tx, line.source):
                    return None
                if line.relation in BETWEEN_RECORDS and not is_there(self._tx, line.target):
                    return None
                added = self._tx.execute(
                    "relate", source=line.source, type=line.relation, target=line.target
                )
                return added.rowcount > 0
            case FeedbackLine():
                if line.answer is not None and not is_there(self._tx, line.answer):
                    return None
                was_new = self._write_line("rate", line, is_just_given=False)
                asked = {"answer": line.answer, "score": line.score}
                if was_new and self._first_row("scored_otherwise", **asked) is not None:
                    self._tx.execute("score_answer", answer=line.answer)
                return was_new
            case NoteLine():
                return self._write_line("import_note", line)
            case OutputLine():
                return self._write_line("import_output", line)
            case AuditLine():
                if line.action not in {DENIED, ERASED} and not is_there(self._tx, line.record_id):
                    return None
                gone = [id_ for id_ in named_in(line.detail) if was_id_erased(self._tx, id_)]
                detail = without_names(line.detail, gone)
                values = {**msgspec.structs.asdict(line), "detail": as_json(detail)}
                added = self._first_row("import_audit", **values)
                if added is not None:
                    self._tx.refuse_excess()
                    name_in_audit(self._tx, added["row"], detail)
                    self._retire_as(line)
                return added is not None
            case AccessLine():
                if self._write_line("import_access", line):
                    return True
                return False if is_there(self._tx, line.record) else None
            case ItemLine():
                return self._store_item(line)
            case ShowingLine():
                return self._store_showing(line)

    def _store_record(self, line: RecordLine, record: Record) -> bool | None:
        """Store a record; return whether it is new, None if it was erased here earlier."""
        known = self._first_row("record_state", id=record.id)
        if known is not None:
            if known["superseded_by"] is None and record.superseded_by:
                self._await_successor(record.id, record.superseded_by)
            return False
        if was_erased(self._tx, record, copied=True):
            self.report.erased += 1
            return None
        newer = record.superseded_by or ""
        is_alone = not is_there(self._tx, newer) and was_id_erased(self._tx, newer)
        if is_alone:  # as it would be here if it had been here then
            record = msgspec.structs.replace(record, superseded_by="")
        self._replace_what_awaits(record)
        other: Record | None = None  # the active one with the topic, or of the document chunk
        if record.superseded_by is None and record.kind == "document_chunk":
            row = self._first_row("active_chunk", source_ref=record.source_ref)
            other = record_of(row) if row else None
        elif record.superseded_by is None:
            other = active_fact_of_topic(self._tx, record)
        if other is not None:
            record = self._resolve_conflict(record, other)
        add_records(self._tx, [record])
        if is_alone and record.retired_why == "merged":
            stand_alone(self._tx, self._first_row("record_by_id", id=record.id), self._by.at)
        if other is not None and record.superseded_by == other.id:
            detail = {"superseded_by": other.id}
            add_to_audit(self._tx, "superseded", record.id, self._cause(other.id), detail)
        # A vector without a direction, or unlike others of its embedder in size, is made again.
        if line.vector is not None and any(data := packed(line.vector.data)):
            embedder = line.vector.embedder
            if embedder not in self._vector_sizes:
                known = self._first_row("vector_size", embedder=embedder)
                self._vector_sizes[embedder] = known["size"] if known else len(data)
            if self._vector_sizes[embedder] == len(data):
                row = self._first_row("record_state", id=record.id)["row"]
                self._tx.keep_vectors([NewVector(row, record.id, embedder, data)])
        return True

    def _await_successor(self, id_: str, newer: str) -> None:
        """Note that a record is to be retired once its successor is imported.

        It stays active until then: the file may lack the successor, or its line be refused. It also
        stays if the successor is there without having replaced it, or was erased.
        """
        if is_there(self._tx, newer) or was_id_erased(self._tx, newer):
            return
        if id_ not in self._awaiting[newer]:
            self._awaiting[newer].append(id_)
            add_to_audit(self._tx, AWAITS, id_, self._cause(newer), {"superseded_by": newer})

    def _replace_what_awaits(self, record: Record) -> None:
        """Retire what awaits a new record, unless that was replaced by it in turn."""
        newer = record.superseded_by
        for id_ in self._awaiting[record.id]:
            if newer and (newer == id_ or self._first_row("replaced_in_turn", id=id_, newer=newer)):
                continue
            self.report.replaced += supersede(self._tx, id_, self._cause(record.id))

    def _resolve_conflict(self, record: Record, other: Record) -> Record:
        """Retire the older of two conflicting records; return the imported one as it is stored."""
        wins = record.event_time > other.event_time
        winner, history = (record, other) if wins else (other, record)
        if record.content != other.content:
            document = record.source_ref if record.kind == "document_chunk" else None
            self.report.conflicts.append(
                Conflict(kept=winner.id, history=history.id, topic=record.topic, document=document)
            )
        if wins:
            supersede(self._tx, other.id, self._cause(record.id))
            return record
        return msgspec.structs.replace(
            record, superseded_by=other.id, retired_at=self._by.at, retired_why="superseded"
        )

    def _cause(self, newer: str) -> Cause:
        by = self._by
        return Cause(agent=by.agent, superseded_by=newer, at=by.at, user=by.user, reason=REASON)

    def _retire_as(self, line: AuditLine) -> None:
        """Let a record that an import retired be retired as it was where it comes from.

        Otherwise the change of state could not be undone: it would seem to have changed since.
        """
        newer = line.detail.get("superseded_by")
        if newer and line.action in get_args(RetirementReason):
            retired = {"why": line.action, "retired_at": line.event_time}
            self._tx.execute("retire_as", id=line.record_id, superseded_by=newer, **retired)

    def _store_item(self, line: ItemLine) -> bool:
        """Store an item unless the existing one is newer; retire the record of the older one."""
        place = {"namespace": path_text(line.namespace), "key": line.key}
        known = self._first_row("item_state", owner=line.owner, collection=line.collection, **place)
        record = line.record if line.record and is_there(self._tx, line.record) else None
        is_newer = known is None or line.updated_at > known["updated_at"]
        if is_newer:
            value = None if bytes(line.value) == bytes(NOTHING) else bytes(line.value)
            self._write_line("put_item", line, **place, record=record, value=value)
        known_record = known["record"] if known is not None else None
        older, newer = (known_record, record) if is_newer else (record, known_record)
        if older and older != newer:
            in_turn = self._first_row("replaced_in_turn", id=older, newer=newer or "")
            cause = self._cause("" if in_turn else newer or "")
            supersede(self._tx, older, cause)
        return is_newer

    def _store_showing(self, line: ShowingLine) -> bool | None:
        """Store what was shown, of the records that are here; return whether it is new."""
        if line.answer is not None and not is_there(self._tx, line.answer):
            return None
        asked = {name: getattr(line, name) for name in ("owner", "session_id", "shown_at")}
        of = {"question": line.question, "answer": line.answer}
        if self._first_row("known_showing", **asked, **of) is not None:
            return False
        here = [shown for shown in line.records if is_there(self._tx, shown[0])]
        values = {**msgspec.structs.asdict(line), "records": here}
        add_showing(self._tx, msgspec.convert(values, Showing))
        return True

    def _write_line(self, statement: str, line: Line, **other: Any) -> bool:
        """Execute a statement with the fields of a line; return whether it changed anything."""
        values = {**msgspec.structs.asdict(line), **other}
        changed = self._tx.execute(statement, **values).rowcount > 0
        if changed:
            self._tx.refuse_excess()
        return changed

    def _first_row(self, statement: str, **values: Any) -> Any:
        return self._tx.execute(statement, **values).fetchone()


def _broken_rule(line: Line) -> str | None:
    """Which rule of a write a line breaks, for its reader; None if it breaks none."""
    names = [(field, getattr(line, field, None)) for field in NAME_FIELDS]
    if isinstance(line, AuditLine):
        names += [("detail", name) for name in named_in(line.detail)]
    for field, name in names:
        if isinstance(name, str) and len(name) > MAX_NAME:
            return f"{field}: expected at most {MAX_NAME} characters, got {len(name):,}."
        if isinstance(name, str) and "\0" in name:
            return f"{field}: {quoted(name)} contains the character NUL."
    if isinstance(line, RecordLine):
        if line.superseded_by == line.id:
            return "superseded_by: a record cannot replace itself."
        is_stated = line.kind in {"fact", "note"} and line.retired_why is None
        if is_stated and is_blank(line.content):
            return "content: the text is blank."
        if line.topic is not None and not is_topic(line.topic):
            return f"topic: {quoted(line.topic)} is not a topic key. {TOPIC_RULE}"
        if line.topic is not None and is_user_topic(line.topic) and line.scope not in OWN_SCOPES:
            return (
                f"topic: {quoted(line.topic)} is a key for a user's own facts, not for scope "
                f"{quoted(line.scope)}."
            )
    if isinstance(line, NoteLine) and is_blank(line.content):
        return "content: the text is blank."
    if isinstance(line, RelationLine):
        if line.relation not in KNOWN_RELATIONS:
            expected = ", ".join(sorted(KNOWN_RELATIONS))
            return f"relation: expected one of {expected}, got {quoted(line.relation)}."
        if line.source == line.target:
            return "target: it is the same record as source."
    return None
