"""Full-text search whose cost hardly grows with the table: only rows with a rare word are scored.

Scoring a row costs thirty times what finding it costs. Rows that match only by common words of the
question come last anyway, so they are left out where there would be too many matches. Which words
are rare is counted in the searched places, whatever others have; only BM25 itself weighs words by
all rows of the file (decision 0066).
"""

from collections.abc import Collection, Mapping, Sequence

import msgspec
import numpy as np

from local.ledger.columns import Columns
from local.ledger.entries import Candidate
from local.ledger.search import Search, StemCounts, WordMatches
from local.ledger.sqlite.candidates import Filter, Pool
from local.ledger.sqlite.database import SqlConnection
from local.ledger.sqlite.rows import TenantRows
from local.ledger.sqlite.working_sets import Held, PlaceRows
from local.text.words import stems

BY_WORDS = 70
"""The best rows by words, from which a search goes on."""
FURTHER_LOOK = 1_500
"""Rows that are read where the best are not the caller's."""
SCORED = 2_000
"""Rows scored for a question because of its rare words."""
PROBE = 2_000
"""Rows up to which those of a word are counted; beyond, they are estimated from the newest."""
BROAD = 0.5
"""A scope with a larger share of all rows than this narrows nothing."""
MARGIN = 1.5
"""Rows found in all places over those expected, since not all of them are in the scope."""
GROWTH = 1.25
"""Growth of the table after which words are counted again."""

COLUMNS = "{content topic label said pairs}"


class PoolMatches(msgspec.Struct, frozen=True, kw_only=True):
    """Candidates that the ledger finds without vectors."""

    pool: Pool
    columns: Columns
    topics: list[int]
    phrases: list[list[int]]
    counts: StemCounts

    def with_later(self, pool: Pool) -> WordMatches:
        """Return the words' matches, with the candidates that came since."""
        known = self.pool.candidates
        self.columns.add(one for row, one in pool.candidates.items() if row not in known)
        return WordMatches(
            view=self.columns.linked(pool.links),
            topics=self.topics,
            phrases=self.phrases,
            counts=self.counts,
        )


class FullText:
    """BM25 over one database; it caches how frequent words are. Used inside reads only."""

    def __init__(self, rows: TenantRows, held: Held) -> None:
        self._rows = rows
        self._words = held.words
        self._known: dict[str, float] = {}
        self._counted = self._last = 1
        self._places = PlaceRows(rows, held.rows)

    def search(
        self,
        connection: SqlConnection,
        search: Search,
        filter_: Filter,
        limit: int,
        *,
        narrow: bool = False,
    ) -> list[int]:
        """Return the best rows first; at most `limit` within the places, perhaps others' too.

        `narrow`: leave out rows that others own or that are retired, at any cost.
        """
        words = [f'"{word}"' for word in (*search.terms, *search.phrases)]
        if not words or not filter_.words:
            return []
        self._refresh(connection)
        rare = self._rare(connection, words, filter_.words)
        share = self._share(connection, rare, filter_.words)
        within = ""
        if narrow or filter_.session_word is not None or share < BROAD:
            within = f" AND places: ({_within(filter_)})"
        elif not filter_.limits_time:
            limit = int(MARGIN * limit / share) + 1
        statement = "search_text_in_time" if filter_.limits_time else "search_text"
        times = {"places": filter_.places, "since": filter_.since, "until": filter_.until}
        found: dict[int, float] = {}
        for words_ in _parts(words, rare):
            asked = {"match": f"({words_}){within}", "limit": limit, **times}
            for row, bm25 in self._rows.execute(connection, statement, **asked):
                found[row] = max(bm25, found.get(row, 0.0))
        return sorted(found, key=found.__getitem__, reverse=True)

    def pool(
        self, connection: SqlConnection, search: Search, filter_: Filter, pool: Pool
    ) -> PoolMatches:
        """Return what words and topics of a question find, and how many records have them."""
        found = self.search(connection, search, filter_, BY_WORDS)
        words = pool.first(found, BY_WORDS)
        if len(found) >= BY_WORDS and len(words) < BY_WORDS:
            # The best are others', retired, or of another session or time.
            found = self.search(connection, search, filter_, FURTHER_LOOK, narrow=True)
            words = pool.first(found, BY_WORDS)
        counts = self.counts(connection, search, filter_)
        topics, retired = pool.by_topics(search.topics), pool.retired_since()
        active = [row for row in words if row not in set(retired)]
        words = _by_own_counts([pool.candidates[row] for row in active], counts)
        pool.add([*words, *topics, *retired])
        columns = Columns(only=frozenset(stems(search.terms)))
        columns.add(pool.candidates[row] for row in sorted(pool.candidates))
        return PoolMatches(
            pool=pool,
            columns=columns,
            topics=topics,
            phrases=self.phrases(connection, search, filter_),
            counts=counts,
        )

    def phrases(
        self, connection: SqlConnection, search: Search, filter_: Filter
    ) -> list[list[int]]:
        """Return the rows of the places that have each of the question's phrases."""
        within = _any_of(filter_.words)
        asked = [f'({COLUMNS}: "{phrase}") AND {within}' for phrase in search.phrases]
        found = (
            self._rows.execute(connection, "search_phrase", match=match, limit=PROBE)
            for match in (asked if filter_.words else ())
        )
        return [[row for (row,) in rows] for rows in found]

    def counts(self, connection: SqlConnection, search: Search, filter_: Filter) -> StemCounts:
        """Return how many records the places have, and how many have each stem of the question."""
        if not filter_.words:
            return StemCounts(total=0.0, having={})
        self._refresh(connection)
        return StemCounts(
            total=self._total(connection, filter_.words),
            having={
                stem: self._count_within(connection, f'{COLUMNS}: "{word}"', filter_.words)
                for word, stem in zip(search.terms, stems(search.terms), strict=True)
            },
        )

    def _rare(
        self, connection: SqlConnection, words: Sequence[str], places: Sequence[str]
    ) -> dict[str, float]:
        """Return the words whose rows are scored, each with its count in the places."""
        counts = {w: self._count_within(connection, f"{COLUMNS}: {w}", places) for w in words}
        rare: dict[str, float] = {}
        total = 0.0
        for word in sorted(words, key=lambda w: counts[w]):
            if total > 0 and total + counts[word] > SCORED:  # words that no row has find nothing
                break
            total += counts[word]
            rare[word] = counts[word]
        return rare

    def _share(
        self, connection: SqlConnection, rare: Mapping[str, float], places: Sequence[str]
    ) -> float:
        """Return the places' share of all rows, or of the rare words' if that is less."""
        of_all = self._total(connection, places) / self._counted
        found = sum(self._count(connection, f"{COLUMNS}: {word}") for word in rare)
        return min(of_all, sum(rare.values()) / found if found else 1.0, 1.0)

    def _total(self, connection: SqlConnection, places: Sequence[str]) -> float:
        """Return the number of active rows of the places."""
        return self._estimated(connection, _any_of(places), places)

    def _count_within(self, connection: SqlConnection, word: str, places: Sequence[str]) -> float:
        """Return the rows of the places that match, counted without all others."""
        match = f"({word}) AND {_any_of(places)}"
        if match not in self._known and self._count(connection, word) < PROBE:
            found = self._rows.execute(connection, "search_phrase", match=word, limit=PROBE)
            rows = np.array([row for (row,) in found], np.int64)
            self._known[match] = float(self._places.count(connection, places, rows))
        return self._estimated(connection, match, places)

    def _estimated(self, connection: SqlConnection, match: str, places: Sequence[str]) -> float:
        """Return how many rows of the places match, exactly if few, else judged by the newest."""
        if match not in self._known:
            asked = {"match": match, "probe": PROBE}
            count, oldest = self._rows.execute(connection, "count_text", **asked).fetchone()
            if count == PROBE:
                count *= self._places.over(connection, places, oldest)
            self._known[match] = float(count)
        return self._known[match]

    def _count(self, connection: SqlConnection, match: str) -> float:
        """Return how many rows match, exactly if they are few."""
        if match not in self._known:
            asked = {"match": match, "probe": PROBE}
            count, oldest = self._rows.execute(connection, "count_text", **asked).fetchone()
            seen = self._last - oldest + 1 if count == PROBE else self._counted
            self._known[match] = count * self._counted / max(seen, 1)
        return self._known[match]

    def _refresh(self, connection: SqlConnection) -> None:
        self._last = self._rows.execute(connection, "last_row").fetchone()["last"] or 1
        if self._last > self._counted * GROWTH or len(self._known) > self._words.most:
            self._counted = self._last
            self._known.clear()
        self._words.use(self, len(self._known), self._known.clear)


def _by_own_counts(found: Sequence[Candidate], counts: StemCounts) -> list[int]:
    """Return their rows, best first, weighed without others' rows: BM25 itself counts all."""
    columns = Columns(only=counts.having.keys())
    columns.add(found)
    scores = np.zeros(len(found))
    for stem, having in counts.having.items():
        posted = columns.postings(stem)
        rarity = np.log1p(counts.total / max(having, 1.0))
        scores[posted.positions] += rarity * posted.counts / (posted.counts + 1)
    return [row for _, row in sorted(zip(-scores, (one.row for one in found), strict=True))]


def _parts(words: Sequence[str], rare: Collection[str]) -> list[str]:
    """Return one match for all words; or rows with a rare one, with and without any other."""
    common = [word for word in words if word not in rare]
    if not common:
        return [_any(rare)]
    return [f"({_any(rare)}) NOT ({_any(common)})", f"({_any(rare)}) AND ({_any(common)})"]


def _within(filter_: Filter) -> str:
    """Return the places as FTS5 looks for them. This saves work; the ledger decides visibility."""
    within = " OR ".join(f'"{word}"' for word in filter_.words)
    return f"({within}) AND {filter_.session_word}" if filter_.session_word else within


def _any_of(places: Sequence[str]) -> str:
    return f"places: ({' OR '.join(places)})"


def _any(words: Collection[str]) -> str:
    return f"{COLUMNS}: ({' OR '.join(words)})"
