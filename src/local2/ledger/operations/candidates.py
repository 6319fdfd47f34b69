"""Reads the candidates of a search, and leaves out those that the caller may not see.

The search channels find records by words or vectors, regardless of their owner. Every record passes
the statement `visible` before it is used.
"""

import math
import re
import sys
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from operator import attrgetter
from typing import Any, Self

import msgspec
import numpy as np

from local2.keys import fold_topic
from local2.language.features import stems_in
from local2.language.forms import forms_of, stems_of
from local2.language.spelling import (
    Frequency,
    possible_parts,
    possible_words,
    respelled,
    spelled,
    taken_apart,
    unknown_words,
)
from local2.language.words import stems
from local2.ledger.columns import (
    MAX_COUNT,
    NEIGHBOUR_SPAN,
    SPOKEN_KINDS,
    Candidate,
    Columns,
    Link,
)
from local2.ledger.operations.places import place_word, session_word
from local2.ledger.operations.transactions import Transaction, as_json, records_at
from local2.ledger.operations.working_sets import candidates_of
from local2.ledger.records import RELATION_TYPES, SHARES_ENTITY, Record, stamp
from local2.ledger.search import (
    DetailRequest,
    Details,
    Related,
    Replaced,
    Search,
    Source,
    StemCounts,
    WordMatches,
)
from local2.ledger.stored_vectors import matrix_of
from local2.protocol.memory_tools import ItemRelation
from local2.protocol.vectors import VectorHits

TEXT_CHARACTERS = 400
"""Number of leading characters of a text that are returned as its beginning."""
MAX_RETIRED = 1_000
"""Maximum number of candidates that were retired after `as_of`; no index finds these any more."""
WITH_NEIGHBOURS = 10
"""Number of best records of each channel whose neighbouring messages become candidates, too."""
PROBE = 2_000
"""Maximum number of rows that are read for a word or phrase; if more have a word, their number is
estimated from the newest ones."""
WORD_CANDIDATES = 70
"""Number of best rows by words that become candidates."""
MAX_ASKED = 5
"""Maximum number of records with a word that are read to see whether they only ask with it."""
FORMER_READ = 20
"""Maximum number of values read that a fact replaced; some may be the same again."""
WIDER_LIMIT = 1_500
"""Number of rows or hits that a second, wider search reads if too few of the best are visible."""


class Filter(msgspec.Struct, frozen=True, kw_only=True):
    """The conditions that all statements of a search apply; `words` are the place words."""

    words: tuple[str, ...]
    places: str
    session_word: str | None
    only_session: str | None
    excluded_session: str | None
    since: str | None
    until: str | None
    as_of: str | None
    source: str | None
    beyond: str | None
    """The end of the range of texts that begin with `source`."""
    owner: str
    current_query_id: str | None
    embedder: str
    """The embedder whose vectors are compared with the question's."""

    @property
    def limits_time(self) -> bool:
        return self.since is not None or self.until is not None

    @property
    def is_open(self) -> bool:
        """Whether everything in the places is searched."""
        limits_session = self.only_session is not None or self.excluded_session is not None
        return not self.limits_time and not limits_session and self.source is None

    @classmethod
    def of(cls, tenant: str, search: Search, embedder: str = "") -> Self:
        words = tuple(place_word(tenant, place) for place in search.places)
        return cls(
            words=words,
            places=as_json(words),
            session_word=session_word(tenant, search),
            only_session=search.only_session,
            excluded_session=search.excluded_session,
            since=stamp(search.since) if search.since else None,
            until=stamp(search.until) if search.until else None,
            as_of=stamp(search.as_of) if search.as_of else None,
            source=search.source,
            beyond=f"{search.source}{chr(sys.maxunicode)}" if search.source else None,
            owner=search.owner,
            current_query_id=search.current_query_id,
            embedder=embedder,
        )


class Pool:
    """Collects the candidates for one question, by row; used inside a read."""

    def __init__(
        self,
        tx: Transaction,
        filter_: Filter,
        former: "Pool | None" = None,
    ) -> None:
        """`former`: a pool whose candidates and links this one starts with."""
        self._tx = tx
        self._words = filter_.words
        self._asked = msgspec.structs.asdict(filter_)
        self.candidates: dict[int, Candidate] = dict(former.candidates) if former else {}
        self.links: list[Link] = list(former.links) if former else []

    def rows_of_topics(self, topics: Sequence[str]) -> list[int]:
        """The rows of the facts with these keys."""
        asked = {
            "topics": as_json([fold_topic(topic) for topic in topics]),
            "places": self._asked["places"],
        }
        return [row for (row,) in self._all("topic_rows", **asked)] if topics else []

    def rows_of_phrases(self, phrases: Sequence[str]) -> list[list[int]]:
        """For each phrase the rows of the searched places that have it."""
        if not self._words:
            return []
        text = self._tx.text
        return [text.rows_of_phrase(self._tx, phrase, self._words, PROBE) for phrase in phrases]

    def add(self, rows: Sequence[int]) -> None:
        """Add the visible rows, and the neighbours of the first ones; `rows` has the best first."""
        self._read(rows=sorted(set(rows)))
        best = [*dict.fromkeys(rows)][:WITH_NEIGHBOURS]
        first = [
            row
            for row in best
            if row in self.candidates and self.candidates[row].kind in SPOKEN_KINDS
        ]
        if not first:
            return
        links = _links(self._all("around", rows=as_json(first), span=NEIGHBOUR_SPAN))
        self.links += links
        self._read(rows=sorted({row for link in links for row in (link.row, link.later)}))

    def take_first(self, rows: Sequence[int], limit: int) -> list[int]:
        """Find the first visible rows, and add them to the candidates."""
        self._read(rows=rows, limit=limit)
        return [row for row in rows if row in self.candidates][:limit]

    def take_nearest(self, hits: VectorHits, limit: int) -> list[int]:
        """Find the rows of the first visible hits, and add them to the candidates."""
        known = {candidate.id for candidate in self.candidates.values()}
        self._read(ids=[hit.id for hit in hits.hits if hit.id not in known], limit=limit)
        rows = {candidate.id: candidate.row for candidate in self.candidates.values()}
        return [rows[hit.id] for hit in hits.hits if hit.id in rows][:limit]

    def pending_question(self) -> list[int]:
        """The row of the question that the caller is answering, if it was received."""
        if self._asked["current_query_id"] is None:
            return []
        return [row for (row,) in self._all("being_asked", **self._asked)]

    def own_rows(self, limit: int = -1) -> list[int]:
        """The rows that the caller may see, up to the limit."""
        return [row for (row,) in self._all("own_rows", limit=limit, **self._asked)]

    def retired_rows(self) -> list[int]:
        """The rows that were retired after `as_of`, the earliest up to a limit."""
        if self._asked["as_of"] is None:
            return []
        return [row for (row,) in self._all("retired_since", limit=MAX_RETIRED, **self._asked)]

    def compare_vectors(
        self, rows: Sequence[int], hits: VectorHits, limit: int
    ) -> list[tuple[float, int]]:
        """The rows nearest to the question, each preceded by its cosine, best first."""
        asked = {**self._asked, "embedder": hits.embedder}
        found = self._all("own_vectors", rows=as_json(rows), **asked)
        if not found:
            return []
        question = np.frombuffer(hits.question, np.float32)
        cosines = np.vecdot(matrix_of([data for _, data in found]), question)
        best = np.argsort(-cosines, kind="stable")[:limit].tolist()
        return [(float(cosines[position]), found[position][0]) for position in best]

    def details(
        self,
        wanted: DetailRequest,
        *,
        related: Mapping[int, Sequence[Related]],
        sources: Mapping[int, Sequence[Source]],
    ) -> Details:
        """The requested details; `related` and `sources` may have been read before."""
        return Details(
            related=related,
            sources=sources,
            replaced=self.replaced(wanted.replaced) if wanted.replaced else {},
            former=self.former_values(wanted.former) if wanted.former else {},
            texts=self.texts(wanted.texts) if wanted.texts else {},
            records=self.records(wanted.records) if wanted.records else {},
            relations=self.relations(wanted.relations) if wanted.relations else {},
        )

    def related(self, rows: Sequence[int]) -> dict[int, list[Related]]:
        """The related rows of each of these rows."""
        related: dict[int, list[Related]] = {}
        for of, row, stated in self._all("related", rows=as_json(rows), entity=SHARES_ENTITY):
            related.setdefault(of, []).append(Related(row, bool(stated)))
        return related

    def relations(self, rows: Sequence[int]) -> dict[int, list[ItemRelation]]:
        """The stated relations of each of these rows with other searched records."""
        asked = {"rows": as_json(rows), "types": as_json(RELATION_TYPES)}
        relations: dict[int, list[ItemRelation]] = {}
        found = self._all("item_relations", places=self._asked["places"], **asked)
        for of, type_, id_, incoming in found:
            relation = ItemRelation(type=type_, id=id_, incoming=bool(incoming))
            relations.setdefault(of, []).append(relation)
        return relations

    def sources(self, rows: Sequence[int]) -> dict[int, list[Source]]:
        """What the echoes among these rows repeat, each text as it was last replaced.

        Many echoes may repeat old versions of one fact that was replaced hundreds of times, so
        each version is read and followed once.
        """
        echoed = self._all("echoed", rows=as_json(rows))
        repeated = {id_ for _, id_ in echoed}
        versions = {
            id_: (row, kind, newer)
            for id_, row, kind, newer in self._all("versions", ids=as_json(repeated))
        }
        latest: dict[str, str] = {}
        for id_ in repeated:
            last = id_
            passed = set[str]()
            while last in versions and last not in latest and last not in passed:
                passed.add(last)
                last = versions[last][2] or last
            latest |= dict.fromkeys(passed, latest.get(last, last))
        sources: dict[int, dict[int, bool]] = {}
        for of, id_ in echoed:
            last = latest.get(id_, id_)
            if last in versions and versions[last][2] is None:
                row, kind, _ = versions[last]
                found = sources.setdefault(of, {})
                found[row] = found.get(row, False) or (last != id_ and kind == "fact")
        return {
            of: [Source(row, replaces) for row, replaces in sorted(found.items())]
            for of, found in sources.items()
        }

    def replaced(self, rows: Sequence[int]) -> dict[int, Replaced]:
        """What holds in place of facts that were extracted from these messages."""
        replaced: dict[int, Replaced] = {}
        for former, stating, fact, text in self._all("replaced", rows=as_json(rows)):
            instead = replaced.setdefault(former, Replaced(set(), [], [], []))
            instead.texts.add(text)
            instead.stating.append(stating)
            instead.facts.append(fact)
        if replaced:
            for former, fact in self._all("facts_that_stand", rows=as_json(list(replaced))):
                replaced[former].stand.append(fact)
        return replaced

    def former_values(self, rows: Sequence[int]) -> dict[int, list[Record]]:
        """The values that each of these facts replaced under its key, the latest first."""
        found = self._all("former_values", rows=as_json(rows), limit=FORMER_READ, **self._asked)
        records = records_at(self._tx, [row for _, row in found])
        former: dict[int, list[Record]] = {}
        for of, row in found:
            former.setdefault(of, []).append(records[row])
        return former

    def texts(self, rows: Sequence[int]) -> dict[int, str]:
        """The beginning of each row's text."""
        return dict(self._all("texts", rows=as_json(rows), most=TEXT_CHARACTERS))

    def records(self, rows: Sequence[int]) -> dict[int, Record]:
        """The records that are active, or were active at `as_of`."""
        as_of = self._asked["as_of"]
        return {
            row: record
            for row, record in records_at(self._tx, rows).items()
            if record.superseded_by is None
            or (as_of is not None and record.retired_at and stamp(record.retired_at) > as_of)
        }

    def _read(self, rows: Iterable[int] = (), ids: Sequence[str] = (), limit: int = -1) -> None:
        """Read records by row or id; add the first visible ones to the candidates."""
        new = [row for row in rows if row not in self.candidates]
        if new or ids:
            asked = {"rows": as_json(new), "ids": as_json(ids), "limit": limit}
            found = self._tx.execute("visible", **asked, **self._asked)
            # by row, not in the order of BM25
            for candidate in sorted(candidates_of(found.fetchall()), key=attrgetter("row")):
                self.candidates[candidate.row] = candidate

    def _all(self, statement: str, **values: object) -> list[tuple[Any, ...]]:
        return self._tx.execute(statement, **values).fetchall()


class PoolMatches(msgspec.Struct, frozen=True, kw_only=True):
    """The candidates found by words and topics, without vectors."""

    pool: Pool
    columns: Columns
    topics: list[int]
    phrases: list[list[int]]
    counts: StemCounts
    meant: Mapping[str, tuple[str, ...]]

    def with_later(self, pool: Pool) -> WordMatches:
        """The matches, with the candidates that were added to the pool since."""
        known = self.pool.candidates
        self.columns.add(new for row, new in pool.candidates.items() if row not in known)
        return WordMatches(
            view=self.columns.linked(pool.links),
            topics=self.topics,
            phrases=self.phrases,
            counts=self.counts,
            meant=self.meant,
        )


CountWords = Callable[[Transaction, Search, Filter], StemCounts]
"""Counts the records in the searched places, in total and with each stem of the search's terms."""


def find_meant(
    tx: Transaction, search: Search, filter_: Filter, count: CountWords
) -> tuple[Search, Mapping[str, tuple[str, ...]], StemCounts]:
    """What is meant by words of the search that no record has; the search for that, and its counts.

    What records the caller may see have instead is read from the newest that have a similar word.
    """

    def searching(terms: Iterable[str]) -> Search:
        return msgspec.structs.replace(search, terms=tuple(terms))

    def frequency_in(counts: StemCounts) -> Frequency:
        return lambda stem: counts.by_stem.get(stem, 0.0)

    counts = count(tx, search, filter_)
    pool = Pool(tx, filter_)
    only_asked = _only_asked(tx, pool, search.terms, frequency_in(counts), filter_)
    unknown = only_asked | unknown_words(search.terms, frequency_in(counts))
    meant: dict[str, tuple[str, ...]] = {word: () for word in unknown if word in search.optional}
    unknown -= meant.keys()
    possible = possible_words(search.terms, unknown)
    if possible and filter_.words:
        rows = tx.text.rows_of_any(tx, sorted(possible), filter_.words, PROBE)
        found = pool.take_first(rows, WORD_CANDIDATES)
        newest = _stems_stated(pool.candidates[row] for row in found)
        meant |= respelled(search.terms, unknown, newest.__getitem__)
        if left := unknown - meant.keys():
            of_parts = count(tx, searching(possible_parts(left)), filter_)
            meant |= taken_apart(left, frequency_in(of_parts))
    if not meant:
        return search, meant, counts
    search = searching(spelled(search.terms, meant))
    return search, meant, count(tx, search, filter_)


def _stems_stated(found: Iterable[Candidate]) -> Counter[str]:
    """How many of these records have each stem, apart from questions to the memory."""
    return Counter(stem for one in found if not one.asks for stem in stems_in(one.features().stems))


def _only_asked(
    tx: Transaction, pool: Pool, terms: Sequence[str], frequency: Frequency, filter_: Filter
) -> frozenset[str]:
    """The rare words that only questions to the memory have."""
    by_word = {word: stems_of(word) for word in terms}
    rare = {
        word: forms
        for word, forms in by_word.items()
        if 0 < sum(map(frequency, forms)) <= MAX_ASKED
    }
    if not (rare and filter_.words):
        return frozenset()
    possible = {form for word in rare for form in forms_of(word)}
    rows = tx.text.rows_of_any(tx, sorted(possible), filter_.words, PROBE)
    stating = set(pool.take_first(rows, PROBE)).difference(pool.pending_question())
    stated = _stems_stated(pool.candidates[row] for row in stating)
    return frozenset(word for word, forms in rare.items() if stated.keys().isdisjoint(forms))


def pooled(
    pool: Pool,
    search: Search,
    words: Sequence[int],
    counts: StemCounts,
    meant: Mapping[str, tuple[str, ...]],
) -> PoolMatches:
    """The matches of a search by words, whose visible rows are in the pool already.

    `meant`: as `find_meant` has found it.
    """
    topics, retired = pool.rows_of_topics(search.topics), pool.retired_rows()
    former = set(retired)
    active = [row for row in words if row not in former]
    best = ranked_by_counts(
        [(row, pool.candidates[row].features().stems) for row in active], counts
    )
    pool.add([*best, *topics, *retired])
    columns = Columns(only=frozenset(stems(search.words)))
    columns.add(pool.candidates[row] for row in sorted(pool.candidates))
    return PoolMatches(
        pool=pool,
        columns=columns,
        topics=topics,
        phrases=pool.rows_of_phrases(search.phrases),
        counts=counts,
        meant=meant,
    )


def rarest(counts: Mapping[str, float], most: int) -> list[str]:
    """The rarest words, of which together at most so many rows are scored; at least one word."""
    rare: list[str] = []
    total = 0.0
    for word in sorted(counts, key=counts.__getitem__):
        if total > 0 and total + counts[word] > most:  # at least one word that some row has
            break
        total += counts[word]
        rare.append(word)
    return rare


def ranked_by_counts(found: Sequence[tuple[int, str]], counts: StemCounts) -> list[int]:
    """The rows, best first, weighing words by the counts in the places, unlike BM25.

    Each row comes with its stems, as in the table `feature`.
    """
    rarities = {
        stem: math.log1p(counts.total / max(count, 1.0)) for stem, count in counts.by_stem.items()
    }
    any_stem = re.compile(rf" ({'|'.join(map(re.escape, rarities))})=(\d+)")

    def score(texts_stems: str) -> float:
        occurring = dict(any_stem.findall(texts_stems))
        total = 0.0
        for stem, rarity in rarities.items():  # in one order, so that equal texts score the same
            if stem in occurring:
                times = min(int(occurring[stem]), MAX_COUNT)
                total += rarity * times / (times + 1)
        return total

    scores = {row: score(texts_stems) for row, texts_stems in found}
    return sorted(scores, key=lambda row: (-scores[row], row))


def _links(around: Sequence[tuple[int, int, int, int]]) -> list[Link]:
    """The links of messages with their neighbours, which are in session order."""
    before: dict[int, list[int]] = {}
    after: dict[int, list[int]] = {}
    for row, near, is_later, _ in around:
        (after if is_later else before).setdefault(row, []).append(near)
    return [
        *(Link(row, near, n) for row, rows in after.items() for n, near in enumerate(rows, 1)),
        *(
            Link(near, row, n)
            for row, rows in before.items()
            for n, near in enumerate(rows[::-1], 1)  # the last of those before is the nearest
        ),
    ]
