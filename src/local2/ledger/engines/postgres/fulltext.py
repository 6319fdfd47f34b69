"""Full-text search by stems, with the stems and the counts of the searched places alone.

Rows that have a rare word of the question are ranked by how rare their words are; rows that have
common words only would rank last anyway.
"""

import time
from collections.abc import Sequence
from threading import Lock
from typing import NamedTuple

from local2.bounded_dict import BoundedDict
from local2.language.words import stems, stems_of_guesses, words
from local2.ledger.engines import Row
from local2.ledger.operations.candidates import (
    PROBE,
    WIDER_LIMIT,
    WORD_CANDIDATES,
    Filter,
    Pool,
    PoolMatches,
    find_meant,
    pooled,
    ranked_by_counts,
    rarest,
)
from local2.ledger.operations.transactions import Transaction, as_json
from local2.ledger.search import Search, StemCounts

SCORED = 2_000
"""Maximum number of rows ranked for a question."""
HELD_SECONDS = 60.0
"""Seconds for which a large number is held; how rare words are hardly changes meanwhile. To count
100,000 records takes as long as all else that a recall asks of the database."""
HELD_FROM, MAX_HELD = 500, 2_000
"""The least number that is held, and how many are."""


class TextIndex:
    """The words of records, in an inverted index (`record_words`)."""

    def rows_of_phrase(
        self, tx: Transaction, phrase: str, places: Sequence[str], limit: int
    ) -> list[int]:
        wanted = stems(words(phrase))
        if not wanted:
            return []

        def follow_in(text: str | None) -> bool:
            """Whether a text has the stems of the phrase one after the other."""
            found = stems(words(text or ""))
            return any(
                found[start : start + len(wanted)] == wanted
                for start, stem in enumerate(found)
                if stem == wanted[0]
            )

        asked = {"places": as_json(places), "stems": as_json(wanted), "limit": limit}
        return [
            row["row"]
            for row in tx.execute("texts_with_all", **asked)
            if any(follow_in(row[name]) for name in ("content", "topic", "label"))
        ]

    def rows_of_word(self, tx: Transaction, word: str, place: str, limit: int) -> list[int]:
        return [row for row, _ in self._facts(tx, [word], place, limit)]

    def rows_of_words(
        self,
        tx: Transaction,
        words: Sequence[str],
        places: Sequence[str] | None,
        *,
        before: int,
        limit: int,
    ) -> list[int]:
        asked = {"stems": as_json(stems(words)), "before_row": before, "limit": limit}
        if places is None:
            found = tx.execute("rows_with_all", **asked)
        else:
            found = tx.execute("active_rows_with_all", **asked, places=as_json(places))
        return [row["row"] for row in found]

    def rows_of_any(
        self, tx: Transaction, words: Sequence[str], places: Sequence[str], limit: int
    ) -> list[int]:
        asked = {
            "places": as_json(places),
            "stems": as_json(stems_of_guesses(words)),
            "limit": limit,
        }
        return [row for row, _ in tx.execute("rows_with_any", **asked).fetchall()]

    def facts_like(
        self, tx: Transaction, words: Sequence[str], place: str, limit: int
    ) -> list[Row]:
        found = self._facts(tx, words, place, SCORED)
        wanted = stems(words)
        numbers = {stem: float(sum(f" {stem}=" in text for _, text in found)) for stem in wanted}
        counts = StemCounts(total=float(len(found)), by_stem=numbers)
        best = ranked_by_counts(found, counts)[:limit]
        rows = {row["row"]: row for row in tx.execute("records", rows=as_json(best))}
        return [rows[row] for row in best]

    def count_traces(self, tx: Transaction, words: Sequence[str], rows: str) -> int:  # noqa: ARG002 - an erased text has no words
        return int(tx.execute("text_traces", rows=rows).fetchone()["found"])

    def _facts(
        self, tx: Transaction, words: Sequence[str], place: str, limit: int
    ) -> list[tuple[int, str]]:
        asked = {"places": as_json([place]), "stems": as_json(stems(words)), "limit": limit}
        return tx.execute("facts_with_any", **asked).fetchall()


class _Held(NamedTuple):
    read_at: float
    number: int


class FullText:
    """Search by words of one tenant; it holds how many records have what many have, for a while."""

    def __init__(self) -> None:
        self._large: BoundedDict[tuple[str, str | None], _Held] = BoundedDict(MAX_HELD)
        """Numbers by places and stem; None stands for all records there."""
        self._lock = Lock()

    def pool(self, tx: Transaction, search: Search, filter_: Filter, pool: Pool) -> PoolMatches:
        """The candidates by words and topics, and how many records have each word."""
        search, meant, counts = find_meant(tx, search, filter_, self.counts)
        found = self._search(tx, search, filter_, counts)
        best = pool.take_first(found[:WIDER_LIMIT], WORD_CANDIDATES)
        return pooled(pool, search, best, counts, meant)

    def counts(self, tx: Transaction, search: Search, filter_: Filter) -> StemCounts:
        """The numbers of records in the places, in total and with each of the stems."""
        if not filter_.words:
            return StemCounts(total=0.0, by_stem={})
        places, asked = filter_.places, stems(search.words)
        since = time.monotonic() - HELD_SECONDS
        numbers: dict[str | None, int] = {}
        with self._lock:
            for stem in (*asked, None):
                held = self._large.get((places, stem))
                if held is not None and held.read_at > since:
                    numbers[stem] = held.number
        read: dict[str | None, int] = {}
        if new := [stem for stem in asked if stem not in numbers]:
            found = tx.execute("count_words", places=places, stems=as_json(new), probe=PROBE)
            read |= {row["stem"]: row["count"] for row in found}
        if None not in numbers:
            read[None] = tx.execute("count_in_places", places=places).fetchone()["count"]
        with self._lock:
            for stem, number in read.items():
                if number >= HELD_FROM:
                    self._large[places, stem] = _Held(time.monotonic(), number)
        numbers |= read
        return StemCounts(
            total=float(numbers[None]), by_stem={stem: float(numbers[stem]) for stem in asked}
        )

    def _search(
        self, tx: Transaction, search: Search, filter_: Filter, counts: StemCounts
    ) -> list[int]:
        """The rows with a rare word of the question, the best first."""
        rare = rarest(counts.by_stem, SCORED)
        for phrase in search.phrases:
            rare += stems(words(phrase))[:1]
        if not rare:
            return []
        asked = {
            "places": filter_.places,
            "stems": as_json(list(dict.fromkeys(rare))),
            "limit": SCORED,
        }
        if filter_.is_open:
            found = tx.execute("rows_with_any", **asked)
        else:
            found = tx.execute(
                "rows_with_any_within",
                session_id=filter_.only_session if filter_.session_word else None,
                excluded_session=filter_.excluded_session,
                since=filter_.since,
                until=filter_.until,
                **asked,
            )
        return ranked_by_counts(found.fetchall(), counts)
