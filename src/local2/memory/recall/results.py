"""Build the results of recall: the best records without duplicates, with their relations."""

from collections.abc import Collection, Iterator, Mapping, Sequence
from itertools import chain, islice
from typing import Self

import msgspec

from local2.keys import is_topic
from local2.language.words import bare_words
from local2.ledger.records import Record, call_of
from local2.ledger.search import Choice, DetailRequest
from local2.memory.intake.echoes import OF_TURNS
from local2.memory.recall.later import LaterStatements
from local2.memory.recall.ranking import RankedRecord, Shares, Trace
from local2.memory.recall.tuning import FORMER
from local2.memory.scopes import source_kind
from local2.protocol.memories import EPISODIC, Kind
from local2.protocol.memory_tools import ItemRelation

MAX_NORMALISED = 20_000
"""Number of characters of a text in which capitals and punctuation are ignored."""
MAX_RELATIONS = 5
"""Maximum number of relations shown per item."""
MAX_FORMER = 3
"""Maximum number of former values of a fact that are shown below it."""
SPARE_ITEMS = 4
"""Number of items read beyond those wanted, since some are duplicates."""

_ContentKey = tuple[str, ...]


class RecallItem(msgspec.Struct, frozen=True, kw_only=True):
    """A recalled record. `score` is from 0 to 1, or the reranker's score."""

    record: Record
    score: float
    shares: Shares
    weight: float
    cosine: float | None
    """Of the record and the question; None if the record has no comparable vector."""
    covered: float
    """The fraction of the question's words that the record contains, in any inflected form."""
    relations: tuple[ItemRelation, ...] = ()
    """At most five, those to other items first."""
    outdated_by: str | None = None
    """The id of a later statement of another value."""
    contradicts: str | None = None
    """The id of a user's statement of another value, which is stronger."""
    later: tuple[Record, ...] = ()
    """At most three: the reply that a question got, and later statements of its speaker."""

    @classmethod
    def of(cls, ranked: RankedRecord, records: Mapping[int, Record]) -> Self:
        """The item of a ranked record; `records` has it and what replaces it, by their rows."""
        newer, stronger = (row and records.get(row) for row in ranked.mark)
        return cls(
            record=records[ranked.row],
            score=ranked.score,
            shares=ranked.shares,
            weight=ranked.weight,
            cosine=ranked.cosine,
            covered=ranked.covered,
            outdated_by=newer.id if newer else None,
            contradicts=stronger.id if stronger else None,
        )


def first_items(
    ranked: Iterator[RankedRecord],
    wanted: int,
    *,
    kinds: Collection[Kind],
    repetitions: bool,
    later: LaterStatements | None,
    trace: Trace | None = None,
) -> Choice[list[RecallItem]]:
    """The best items of these kinds with their records, without duplicates and retired records.

    `repetitions`: whether to return every record of several with the same text. `later`: what the
    items carry of it. `trace`: is told what is left out.
    """
    first: list[RecallItem] = []
    records: dict[int, Record] = {}
    keys: dict[int, _ContentKey] = {}
    topics_of: dict[_ContentKey, set[str | None]] = {}
    while len(first) < wanted and (page := list(islice(ranked, wanted + SPARE_ITEMS))):
        rows = {row for found in page for row in (found.row, *found.mark) if row is not None}
        records |= (yield DetailRequest(records=sorted(rows - records.keys()))).records
        if trace is not None:
            trace.leave_out((found.row for found in page if found.row not in records), "retired")
        for item in (RecallItem.of(found, records) for found in page if found.row in records):
            if len(first) == wanted:
                break
            if source_kind(item.record.kind) not in kinds:
                continue
            key, topic = _content_key(item.record), item.record.topic
            keys[item.record.row] = key
            topics = topics_of.setdefault(key, set())
            # Under another topic, the same words are no duplicate.
            is_duplicate = topic in topics or None in topics or (topic is None and bool(topics))
            if repetitions or not is_duplicate:
                topics.add(topic)
                first.append(item)
            elif trace is not None:
                trace.leave_out([item.record.row], "repeated")
    if later is None:
        return first
    beside = yield from later.beside([item.record.row for item in first])
    if not any(beside):
        return first
    rows = {*chain.from_iterable(beside)}
    records |= (yield DetailRequest(records=sorted(rows - records.keys()))).records
    standing = {row: records[row] for row in rows if row in records}
    keys |= {row: _content_key(standing[row]) for row in standing.keys() - keys.keys()}

    def said_later(item: RecallItem, rows: Sequence[int]) -> tuple[Record, ...]:
        """The later statements that still stand and say something else than the item."""
        key = keys[item.record.row]
        return tuple(standing[row] for row in rows if row in standing and keys[row] != key)

    return [
        msgspec.structs.replace(item, later=said_later(item, rows))
        for item, rows in zip(first, beside, strict=True)
    ]


def with_former_values(items: Sequence[RecallItem]) -> Choice[list[RecallItem]]:
    """The items, and below each near fact with a key the values that it replaced, marked so."""
    least = FORMER * max((item.score for item in items), default=0.0)
    near = (item.record for item in items if item.score >= least)
    rows = [record.row for record in near if record.topic is not None]
    former = (yield DetailRequest(former=rows)).former if rows else {}

    def outdated(item: RecallItem) -> Iterator[RecallItem]:
        values = {_content_key(item.record)}
        for record in former.get(item.record.row, ()):
            if len(values) <= MAX_FORMER and (value := _content_key(record)) not in values:
                values.add(value)
                yield msgspec.structs.replace(
                    item, record=record, outdated_by=item.record.id, later=()
                )

    return [one for item in items for one in (item, *outdated(item))]


def with_relations(items: Sequence[RecallItem]) -> Choice[list[RecallItem]]:
    """The items with their relations: what supersedes them, and other items, first."""
    rows = [item.record.row for item in items]
    known = (yield DetailRequest(relations=rows)).relations if rows else {}
    found = {item.record.id for item in items}

    def related(row: int) -> tuple[ItemRelation, ...]:
        ordered = sorted(
            known[row], key=lambda relation: (not relation.tells_newer, relation.id not in found)
        )
        return tuple(ordered[:MAX_RELATIONS])

    return [
        msgspec.structs.replace(item, relations=related(row)) if row in known else item
        for item, row in zip(items, rows, strict=True)
    ]


def _content_key(record: Record) -> _ContentKey:
    """A key for a record's content that ignores capitals and punctuation around words.

    The metadata of a note is part of its content. Of a long text, everything after the beginning is
    compared literally.
    """
    text = (*bare_words(record.content[:MAX_NORMALISED]), record.content[MAX_NORMALISED:])
    metadata = record.metadata if record.kind in EPISODIC else {}
    if own := {name: value for name, value in metadata.items() if name not in OF_TURNS}:
        return (*text, msgspec.json.encode(own, order="deterministic").decode())
    return text


def label_of(record: Record) -> str | None:
    """Its topic key, its call, or its speaker's name unless it looks like a key."""
    label = record.topic or call_of(record) or record.label
    return None if not label or (record.topic is None and is_topic(label)) else label


def labelled_text(record: Record) -> str:
    """The text after its label."""
    label = label_of(record)
    return f"{label}: {record.content}" if label else record.content
