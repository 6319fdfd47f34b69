"""The results of recall: the best records, each content once, and their relations."""

from collections.abc import Collection, Iterator, Mapping, Sequence
from itertools import islice

import msgspec

from local.ledger.records import Record
from local.ledger.search import Choice, DetailRequest
from local.memory.intake.echoes import OF_TURNS
from local.memory.recall.precedence import ResultList
from local.memory.recall.ranking import RankedRecord, Shares
from local.protocol.memories import EPISODIC, ItemRelation
from local.text.names import is_topic
from local.text.words import bare_words

COMPARED = 20_000
"""Characters of a text in which capitals and punctuation make no difference."""
RELATIONS = 5
"""The most relations shown of an item."""
SPARE = 4
"""Items read beyond what is wanted, since some repeat others."""


class RecallItem(msgspec.Struct, frozen=True, kw_only=True):
    """A recalled record. `score` is at most 1, or the reranker's own."""

    record: Record
    score: float
    shares: Shares
    weight: float
    compared: bool
    """Whether its meaning could be compared: it has a vector."""
    covered: float
    """The share of the question's words that it has, in this or another ending."""
    relations: tuple[ItemRelation, ...] = ()
    """A few, those to other items first."""
    outdated_by: str | None = None
    """The id of a later statement about the same with another value."""
    contradicts: str | None = None
    """The id of a user's statement about the same, which has more force."""


def first_items(
    ranked: Iterator[RankedRecord], wanted: int, *, repetitions: bool
) -> Choice[list[RecallItem]]:
    """Return the best items with their records, each text and echo once; no retired ones."""
    first: list[RecallItem] = []
    results = ResultList()
    topics_of: dict[tuple[str, ...], set[str | None]] = {}
    while len(first) < wanted and (page := list(islice(ranked, wanted + SPARE))):
        worth = [one for one in page if results.lists(one.row, one.echo)]
        rows = {row for one in worth for row in (one.row, *one.mark) if row is not None}
        records = (yield DetailRequest(records=sorted(rows))).records
        for item in (_item(one, records) for one in worth if one.row in records):
            topics = topics_of.setdefault(_content_of(item.record), set())
            if repetitions or not _repeats(item.record.topic, topics):
                topics.add(item.record.topic)
                first.append(item)
    return first[:wanted]


def with_relations(items: Sequence[RecallItem]) -> Choice[list[RecallItem]]:
    """Return the items with their relations to others, those to one another first."""
    rows = [item.record.row for item in items]
    known = (yield DetailRequest(relations=rows)).relations if rows else {}
    found = {item.record.id for item in items}

    def related(row: int) -> tuple[ItemRelation, ...]:
        ordered = sorted(known[row], key=lambda relation: relation.id not in found)
        return tuple(ordered[:RELATIONS])

    return [
        msgspec.structs.replace(item, relations=related(row)) if row in known else item
        for item, row in zip(items, rows, strict=True)
    ]


def _item(ranked: RankedRecord, records: Mapping[int, Record]) -> RecallItem:
    newer, stronger = (row and records.get(row) for row in ranked.mark)
    return RecallItem(
        record=records[ranked.row],
        score=ranked.score,
        shares=ranked.shares,
        weight=ranked.weight,
        compared=ranked.compared,
        covered=ranked.covered,
        outdated_by=newer.id if newer else None,
        contradicts=stronger.id if stronger else None,
    )


def _content_of(record: Record) -> tuple[str, ...]:
    """Return a record's content, whatever its capitals and the punctuation around its words.

    A note's content includes what it carries beside its text; a long text's includes the rest after
    its beginning, unchanged.
    """
    text = (*bare_words(record.content[:COMPARED]), record.content[COMPARED:])
    own = record.metadata if record.kind in EPISODIC else {}
    if carried := {name: value for name, value in own.items() if name not in OF_TURNS}:
        return (*text, msgspec.json.encode(carried, order="deterministic").decode())
    return text


def _repeats(topic: str | None, topics: Collection[str | None]) -> bool:
    """Return whether equal words repeat a record: under another topic they are another fact."""
    return topic in topics or None in topics or (topic is None and bool(topics))


def labelled_text(record: Record) -> str:
    """Return the text under its key, or its speaker's name if that is not like a key."""
    label = record.topic or record.label
    if not label or (record.topic is None and is_topic(label)):
        return record.content
    return f"{label}: {record.content}"
