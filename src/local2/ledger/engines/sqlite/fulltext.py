"""Full-text search whose cost hardly grows with the table: it scores only rows with a rare word.

Scoring a row takes thirty times as long as finding it. Rows that match only common words of the
question rank last anyway, so they are left out if there would be too many matches. How rare a word
is depends on the searched places alone; only BM25 itself weighs words by all rows of the file
(decision 0011).
"""

import sys
from array import array
from bisect import bisect_left
from collections.abc import Collection, Iterable, Sequence
from functools import partial

import numpy as np

from local2.language.words import stems
from local2.ledger.columns import Positions
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
    rarest,
)
from local2.ledger.operations.transactions import Transaction
from local2.ledger.operations.working_sets import Budget, Budgets
from local2.ledger.search import Search, StemCounts

TEXT_COLUMNS = "{content topic label said pairs}"
"""The columns of the full-text index that have words of texts."""
FACT_COLUMNS = "{content topic pairs}"
"""The columns of the full-text index that have a fact's words."""
SCORED = 2_000
"""Maximum number of rows scored for a question, as estimated from the counts of its rare words."""
BROAD_SHARE = 0.5
"""Share of all rows from which a filter by places no longer makes a search cheaper."""
MARGIN = 1.5
"""Factor by which more rows are read without that filter, since some are in other places."""
MAX_NEW_ROWS = 5_000
"""Maximum number of new rows that are read from the table; if there are more, the rows of each
place are read again with the index, which is faster then."""
GROWTH = 1.25
"""Growth factor of the table after which cached word counts are dropped."""


class TextIndex:
    """The full-text index of a ledger."""

    def rows_of_phrase(
        self, tx: Transaction, phrase: str, places: Sequence[str], limit: int
    ) -> list[int]:
        match = f'({TEXT_COLUMNS}: "{phrase}") AND {_any_place(places)}'
        return [row for (row,) in tx.execute("search_phrase", match=match, limit=limit)]

    def rows_of_word(self, tx: Transaction, word: str, place: str, limit: int) -> list[int]:
        match = f'{FACT_COLUMNS}: "{word}" AND places: {place}'
        return [row for (row,) in tx.execute("search_phrase", match=match, limit=limit)]

    def rows_of_words(
        self,
        tx: Transaction,
        words: Sequence[str],
        places: Sequence[str] | None,
        *,
        before: int,
        limit: int,
    ) -> list[int]:
        all_words = " AND ".join(f'"{word}"' for word in words)
        match = f"{TEXT_COLUMNS}: ({all_words})"
        if places is not None:
            match = f"({match}) AND {_any_place(places)}"
        found = tx.execute("rows_with_words", match=match, before_row=before, limit=limit)
        return [row for (row,) in found]

    def rows_of_any(
        self, tx: Transaction, words: Sequence[str], places: Sequence[str], limit: int
    ) -> list[int]:
        any_word = _any_word([f'"{word}"' for word in words])
        match = f"({any_word}) AND {_any_place(places)}"
        found = tx.execute("rows_with_words", match=match, before_row=sys.maxsize, limit=limit)
        return [row for (row,) in found]

    def facts_like(
        self, tx: Transaction, words: Sequence[str], place: str, limit: int
    ) -> list[Row]:
        any_word = " OR ".join(f'"{word}"' for word in words)
        match = f"{FACT_COLUMNS}: ({any_word}) AND places: {place}"
        return tx.execute("facts_like", match=match, limit=limit).fetchall()

    def count_traces(self, tx: Transaction, words: Sequence[str], rows: str) -> int:
        match = f'{{content}}: "{" ".join(words)}"'
        found = tx.execute("text_traces", match=match, rows=rows).fetchone()
        return int(found["found"])


class PlaceRows:
    """One tenant's row numbers by place, held in RAM; used inside reads.

    Rows are only added, and never change their place. The full-text index could find them, but it
    reads the list of all rows of a place for every word, which takes a millisecond or more each
    time.
    """

    def __init__(self, budget: Budget) -> None:
        self._budget = budget
        self._places: dict[str, array[int]] = {}
        self._last = 0

    def count(self, tx: Transaction, places: Iterable[str], rows: Positions) -> int:
        """How many of the rows are in any of the places."""
        self._catch_up(tx)
        return sum(_count_common(self._rows_in(tx, place), rows) for place in places)

    def ratio_from(self, tx: Transaction, places: Iterable[str], row: int) -> float:
        """The ratio of all rows of the places to those from this row on."""
        self._catch_up(tx)
        every = [self._rows_in(tx, place) for place in places]
        newer = sum(len(rows) - bisect_left(rows, row) for rows in every)
        return sum(map(len, every)) / max(newer, 1)

    def _rows_in(self, tx: Transaction, place: str) -> "array[int]":
        if place not in self._places:
            found = tx.execute("rows_of_place", place=place, last=self._last)
            self._places[place] = array("q", sorted(row for (row,) in found))
        rows = self._places[place]
        self._budget.use((self, place), len(rows), partial(self._places.pop, place))
        return rows

    def _catch_up(self, tx: Transaction) -> None:
        last = tx.execute("last_row").fetchone()["last"]
        if last - self._last > MAX_NEW_ROWS:
            for place in self._places:
                self._budget.forget((self, place))
            self._places.clear()
        elif self._places:
            for row, place in tx.execute("rows_after", after=self._last):
                if place in self._places:
                    self._places[place].append(row)
        self._last = last


def _count_common(ordered: "array[int]", rows: Positions) -> int:
    """How many of `rows` are in `ordered`, which is sorted."""
    if not ordered:
        return 0
    own = np.frombuffer(ordered, np.int64)
    found = np.minimum(np.searchsorted(own, rows), len(own) - 1)
    return int((own[found] == rows).sum())


class FullText:
    """BM25 search of one database, with cached word counts; used inside reads."""

    def __init__(self, budgets: Budgets) -> None:
        self._words = budgets.words
        self._counts: dict[str, float] = {}
        self._rows_at_refresh = self._last_row = 1
        self._places = PlaceRows(budgets.rows)

    def search(
        self,
        tx: Transaction,
        search: Search,
        filter_: Filter,
        limit: int,
        *,
        narrow: bool = False,
    ) -> list[int]:
        """The best rows first: at most `limit` of the places, and possibly others.

        `narrow`: always leave out rows of other places, even if that is slower.
        """
        words = [f'"{word}"' for word in (*search.words, *search.phrases)]
        if not words or not filter_.words:
            return []
        self._refresh(tx)
        counts = {
            word: self._count_within(tx, f"{TEXT_COLUMNS}: {word}", filter_.words) for word in words
        }
        rare = {word: counts[word] for word in rarest(counts, SCORED)}
        # The places' share of all rows or, if smaller, of the rows with a rare word.
        found_anywhere = sum(self._count(tx, f"{TEXT_COLUMNS}: {word}") for word in rare)
        of_rare = sum(rare.values()) / found_anywhere if found_anywhere else 1.0
        of_all = self._total_within(tx, filter_.words) / self._rows_at_refresh
        share = min(of_all, of_rare, 1.0)
        within = ""
        if narrow or filter_.session_word is not None or share < BROAD_SHARE:
            # This only saves work; `visible` decides what is visible.
            places = " OR ".join(f'"{word}"' for word in filter_.words)
            if filter_.session_word:
                places = f"({places}) AND {filter_.session_word}"
            within = f" AND places: ({places})"
        elif not filter_.limits_time:
            limit = int(MARGIN * limit / share) + 1
        statement = "search_text_in_time" if filter_.limits_time else "search_text"
        times = {"places": filter_.places, "since": filter_.since, "until": filter_.until}
        found: dict[int, float] = {}
        for words_ in _parts(words, rare):
            asked = {"match": f"({words_}){within}", "limit": limit, **times}
            for row, bm25 in tx.execute(statement, **asked):
                found[row] = max(bm25, found.get(row, 0.0))
        return sorted(found, key=found.__getitem__, reverse=True)

    def pool(self, tx: Transaction, search: Search, filter_: Filter, pool: Pool) -> PoolMatches:
        """The candidates by words and topics, and how many records have each word."""
        search, meant, counts = find_meant(tx, search, filter_, self.counts)
        found = self.search(tx, search, filter_, WORD_CANDIDATES)
        words = pool.take_first(found, WORD_CANDIDATES)
        if len(found) >= WORD_CANDIDATES and len(words) < WORD_CANDIDATES:
            # Some of the best are others', retired, or of another session or time.
            found = self.search(tx, search, filter_, WIDER_LIMIT, narrow=True)
            words = pool.take_first(found, WORD_CANDIDATES)
        return pooled(pool, search, words, counts, meant)

    def counts(self, tx: Transaction, search: Search, filter_: Filter) -> StemCounts:
        """The numbers of records in the places, in total and with each of the stems."""
        if not filter_.words:
            return StemCounts(total=0.0, by_stem={})
        self._refresh(tx)
        return StemCounts(
            total=self._total_within(tx, filter_.words),
            by_stem={
                stem: self._count_within(tx, f'{TEXT_COLUMNS}: "{word}"', filter_.words)
                for word, stem in zip(search.words, stems(search.words), strict=True)
            },
        )

    def _total_within(self, tx: Transaction, places: Sequence[str]) -> float:
        """The number of active rows of the places."""
        return self._estimated(tx, _any_place(places), places)

    def _count_within(self, tx: Transaction, word: str, places: Sequence[str]) -> float:
        """How many rows of the places match, without counting the rows of other places."""
        match = f"({word}) AND {_any_place(places)}"
        if match not in self._counts and self._count(tx, word) < PROBE:
            found = tx.execute("search_phrase", match=word, limit=PROBE)
            rows = np.array([row for (row,) in found], np.int64)
            self._counts[match] = float(self._places.count(tx, places, rows))
        return self._estimated(tx, match, places)

    def _estimated(self, tx: Transaction, match: str, places: Sequence[str]) -> float:
        """How many rows of the places match: counted if few, else estimated."""
        if match not in self._counts:
            asked = {"match": match, "probe": PROBE}
            count, oldest = tx.execute("count_text", **asked).fetchone()
            if count == PROBE:
                count *= self._places.ratio_from(tx, places, oldest)
            self._counts[match] = float(count)
        return self._counts[match]

    def _count(self, tx: Transaction, match: str) -> float:
        """How many rows of all places match: counted if few, else estimated."""
        if match not in self._counts:
            asked = {"match": match, "probe": PROBE}
            count, oldest = tx.execute("count_text", **asked).fetchone()
            seen = self._last_row - oldest + 1 if count == PROBE else self._rows_at_refresh
            self._counts[match] = count * self._rows_at_refresh / max(seen, 1)
        return self._counts[match]

    def _refresh(self, tx: Transaction) -> None:
        self._last_row = tx.execute("last_row").fetchone()["last"] or 1
        if (
            self._last_row > self._rows_at_refresh * GROWTH
            or len(self._counts) > self._words.max_size
        ):
            self._rows_at_refresh = self._last_row
            self._counts.clear()
        self._words.use(self, len(self._counts), self._counts.clear)


def _any_place(places: Sequence[str]) -> str:
    """The FTS5 query for the rows of these places."""
    return f"places: ({' OR '.join(places)})"


def _parts(words: Sequence[str], rare: Collection[str]) -> list[str]:
    """The FTS5 queries to run: rows with a rare word, without and with a common one."""
    common = [word for word in words if word not in rare]
    if not common:
        return [_any_word(rare)]
    return [
        f"({_any_word(rare)}) NOT ({_any_word(common)})",
        f"({_any_word(rare)}) AND ({_any_word(common)})",
    ]


def _any_word(words: Collection[str]) -> str:
    return f"{TEXT_COLUMNS}: ({' OR '.join(words)})"
