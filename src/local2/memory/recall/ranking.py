"""Rank the candidates of a search by a sum of score components.

A component is called a share; `explain` shows each. The weights were measured on short talk, long
technical chats and plans made with an assistant, one setting for all (docs/performance.md). How
well a record matches says more than its rank in a channel, so scores are summed, not ranks. The
neighbours of a short message count as part of its meaning. A query that continues a conversation
gets other weights than a question about one: it wants the latest messages of any author.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from datetime import datetime
from functools import cached_property
from typing import Any, Literal, get_args

import msgspec
import numpy as np

from local2.language.questions import asks, is_question
from local2.language.sentences import sentences
from local2.language.words import informative_stems
from local2.ledger.columns import Array, Flags, Positions, View
from local2.ledger.search import Choice, DetailRequest, Matches, Search, WordMatches
from local2.memory.recall.later import LaterStatements
from local2.memory.recall.likeness import Likeness, Wording
from local2.memory.recall.multihop import Hops
from local2.memory.recall.precedence import (
    Echoes,
    StandingFacts,
    repeats_question,
)
from local2.memory.recall.query import Query
from local2.memory.recall.scores import (
    Total,
    apply_weights,
    best_positions,
    found_in_texts,
    texts_at,
)
from local2.memory.recall.tuning import (
    DENSITY,
    DENSITY_OF_TOOLS,
    ENDED,
    FADING,
    FIRSTHAND,
    HALF_SCORE,
    IMPORTANCE,
    MAX_COMPARED,
    MAX_LEADING,
    MAX_LEADS,
    MAX_NODS,
    MAX_QUESTIONS,
    MAX_STEPS,
    NAMED_FIRSTHAND,
    NEW,
    NEW_DAYS,
    NEW_SESSION,
    NOD,
    NOD_CHARACTERS,
    NOD_LENGTH,
    NOD_WORDS,
    RANK_GAP,
    RECENT,
    RECENT_SESSIONS,
    RELATED,
    SPEAKER,
    SPREAD,
    STATED,
    SURE,
    TIME,
    TIMED,
    TIMED_WHEN,
    TOPIC,
    WISH,
    WISH_MEANING,
)
from local2.memory.recall.variants import UNMARKED, Mark, Variants
from local2.memory.scopes import Reach, Weights
from local2.protocol.memories import OwnerScope

DAY = 86_400.0
LeftOut = Literal["retired", "repeated", "below_min_relevance"]
"""Why a record that matches is not in the answer, unless better ones are."""
PAGE = 100
"""Number of results sorted in one step; further results are sorted when they are needed."""
READ_TOGETHER = 24
"""Number of records whose shares are read in one step: as many as most recalls need."""


class Shares(msgspec.Struct, frozen=True, omit_defaults=True):
    """The components of an item's score, before they are multiplied by its scope's weight.

    `shown_scores` puts the product between 0 and 1; a reranker with scores replaces it.
    """

    meaning: float = 0.0
    words: float = 0.0
    coverage: float = 0.0
    around: float = 0.0
    session: float = 0.0
    session_best: float = 0.0
    speaker: float = 0.0
    firsthand: float = 0.0
    timed: float = 0.0
    density: float = 0.0
    wish: float = 0.0
    recent: float = 0.0
    time: float = 0.0
    topic: float = 0.0
    related: float = 0.0
    importance: float = 0.0
    age: float = 0.0
    feedback: float = 0.0
    echo: float = 0.0
    nod: float = 0.0
    reply: float = 0.0
    standing: float = 0.0
    named: float = 0.0
    update: float = 0.0


class RankedRecord(msgspec.Struct, frozen=True, kw_only=True):
    """A record with its score, from 0 to 1, and the components of the score.

    `cosine`: of the record and the question, None if it has no comparable vector. `covered`: the
    fraction of the question's words that it contains.
    """

    row: int
    score: float
    shares: Shares
    weight: float
    cosine: float | None
    covered: float
    mark: Mark = UNMARKED


class Draft:
    """The score components that need no vector, computed while the question is embedded."""

    def __init__(
        self, query: Query, reach: Reach, now: datetime, feedback_weight: float, worded: WordMatches
    ) -> None:
        view = worded.view
        query = self.query = query.respelled(worded.meant)
        self.caller = reach.caller
        self.wording = Wording(worded, query)
        self.topics: Flags = np.zeros(view.size, bool)
        self.topics[view.positions(worded.topics)] = True
        self.weights = view.derive(_weights_in_other_sessions, reach.weights)
        if (current := self.caller.session_id) is not None:
            self.weights = self.weights.copy()
            for scope in get_args(OwnerScope):
                session = view.names.sessions.number_of((scope, current))
                of_session = np.flatnonzero(view.column["session"] == session)
                self.weights[of_session] = reach.weights.in_session(scope)

        # The form of a text counts less the more the query itself states something.
        asking = 1.0 - query.stating
        firsthand, speaker = view.derive(_firsthand), np.zeros(view.size)
        terms = frozenset(query.terms)
        is_named = view.names.labels.map_values(
            lambda label: label is not None and not terms.isdisjoint(label.lower().split())
        )
        if is_named.any():
            named = is_named[view.column["label"]]
            speaker = SPEAKER * named
            by_named = NAMED_FIRSTHAND * named * view.column["firsthand"] / 4
            firsthand = firsthand + ~view.column["machine"] * by_named

        # New records gain a little; all but `core` records fade.
        days = np.maximum((now.timestamp() - view.column["time"]) / DAY, 0.0)
        loss, half_life = view.derive(_fading)
        fading = loss * (1 - np.exp2(-days / half_life))

        self.shares: dict[str, Array] = {
            **self.wording.shares,
            "speaker": speaker,
            "firsthand": asking * firsthand,
            "timed": asking * view.derive(_timed, query.asks_when),
            "density": asking * view.derive(_dense),
            "recent": query.stating * query.continues * view.derive(_recent),
            "time": np.where(self.wording.in_window, TIME, 0.0),
            "importance": view.derive(_importance),
            "age": NEW * np.exp2(-days / NEW_DAYS) - fading,
            "topic": np.where(self.topics, TOPIC, 0.0),
            "feedback": feedback_weight * view.column["feedback"],
        }
        self.sums = sum(self.shares.values(), np.zeros(view.size))


def rank(
    found: Matches, draft: Draft, *, min_score: float, trace: "Trace | None" = None
) -> Choice["Ranking"]:
    """Rank the records that match the question.

    A record matches by its meaning, a word of the question, its topic key, or a link to such a
    record.
    """
    ranking = Ranking(found, draft, min_score)
    for stage in STAGES if found.view.size else ():
        yield from stage(ranking)
        if trace is not None:
            trace.watch(stage, ranking)
    return ranking


class Ranking:
    """What the stages of a ranking know and change: shares, what is relevant, and marks."""

    def __init__(self, found: Matches, draft: Draft, min_score: float) -> None:
        self.found = found
        self.view, self.query, self.wording = found.view, draft.query, draft.wording
        self.min_score = min_score
        self.like = Likeness(found, draft.wording, draft.query)
        self.repeated = repeats_question(draft.wording, self.like)
        self.hit: Flags = self.like.hits(draft.wording, min_score) | draft.topics
        self.relevant = self.hit
        self.total = Total(draft.shares, draft.sums, draft.weights)
        self.variants = Variants(found.view, draft.caller)
        self.below_sources: Flags = np.zeros(found.view.size, bool)
        """The echoes of sources that are found as well."""
        self.outdated: Mapping[int, int] = {}
        """Maps positions of echoes to the rows of the facts that now hold instead."""

    @cached_property
    def later(self) -> LaterStatements:
        """What stands beside the records, once they are ranked."""
        return LaterStatements(self.found, self.total.scores, self.relevant)

    def best_first(self) -> Iterator[RankedRecord]:
        """Yield the records that match, best first, as far as they are asked for."""
        matching = np.flatnonzero(self.relevant)
        for page in sorted_pages(self.total.scores, matching, self.view.column):
            for begin in range(0, len(page), READ_TOGETHER):
                yield from self.records_at(page[begin : begin + READ_TOGETHER])

    def records_at(self, positions: list[int]) -> Iterator[RankedRecord]:
        """Yield the records at these positions, whether or not they match."""
        at = np.array(positions)
        shares = [self.total.shares[name][at] for name in Shares.__struct_fields__]
        columns = (
            self.view.column["row"][at],
            shown_scores(self.total.scores[at]).round(4),
            np.array(shares).round(4).T,
            self.total.weights[at],
            self.like.cosine[at],
            self.like.compared[at],
            self.wording.covered[at],
        )
        of_each = zip(positions, *(column.tolist() for column in columns), strict=True)
        for position, row, score, summands, weight, cosine, compared, covered in of_each:
            yield RankedRecord(
                row=row,
                score=score,
                shares=Shares(*summands),
                weight=weight,
                cosine=cosine if compared else None,
                covered=covered,
                mark=self.variants.marks.get(position, UNMARKED),
            )


def _add_likeness(ranking: Ranking) -> Choice[None]:
    """Add the shares for meaning and neighbours, and for links from the best hits."""
    view, like, hit = ranking.view, ranking.like, ranking.hit
    # What the best hits link to, by a common name or by a stated relation.
    likeness = like.own * hit
    best = np.arange(view.size)
    if view.size > MAX_LEADING:
        best = np.argpartition(-likeness, MAX_LEADING)[:MAX_LEADING]
    best = best[likeness[best] > 0]
    rows = view.column["row"][best].tolist()
    links = (yield DetailRequest(related=rows)).related
    linked, related = np.zeros(view.size, bool), np.zeros(view.size)
    if links:
        leading = dict(zip(rows, likeness[best].tolist(), strict=True))
        leads = np.zeros((2, view.size))  # the best lead by a common name, by a stated relation
        for row, others in links.items():
            for stated in (False, True):
                linked_rows = [other.row for other in others if other.stated is stated]
                at = view.positions(linked_rows)
                leads[int(stated), at] = np.maximum(leads[int(stated), at], leading[row])
        linked = np.asarray(leads.any(axis=0))
        gains = np.array([[RELATED], [STATED]]) * np.maximum(leads - like.own, 0.0)
        related = gains.max(axis=0)
    weak = like.weak_hits(hit | linked, ranking.min_score)
    ranking.relevant = hit | linked | weak
    around = like.around * ~weak  # neighbours of weak hits do not count
    wishes = view.derive(_wishes)
    near = np.minimum(like.meaning[wishes] / WISH_MEANING, 1.0).astype(np.float64)
    wish = np.zeros(view.size)
    wish[wishes] = (1.0 - ranking.query.stating) * WISH * near
    ranking.total.add(
        meaning=like.meaning,
        around=around,
        session_best=like.session_best,
        related=related,
        wish=wish,
    )


def _lower_echoes(ranking: Ranking) -> Choice[None]:
    """Put what was answered from memory below what it came from, and refusals last."""
    total = ranking.total
    echoes = Echoes(ranking.wording, total.sums, total.weights)
    yield from echoes.demote(ranking.relevant, ranking.repeated)
    total.add(echo=echoes.share)
    ranking.below_sources, ranking.outdated = echoes.below, echoes.outdated


def _lower_nods(ranking: Ranking) -> Choice[None]:
    """Put replies of assistants that say nothing last: they match by their neighbours' words."""
    view, share = ranking.view, np.zeros(ranking.view.size)
    short_replies = view.derive(_short_replies)
    found = short_replies[ranking.relevant[short_replies]]
    if len(found):
        replies = best_positions(ranking.total.scores, found, MAX_NODS)
        before = view.neighbours[0][0][replies]
        pairs = list(zip(before.tolist(), replies.tolist(), strict=True))
        nods = yield from found_in_texts(view, _is_nod, pairs)
        share[[reply for said, reply in pairs if nods[said, reply]]] = NOD
    ranking.total.add(nod=share)


def _answer_repeated_questions(ranking: Ranking) -> Choice[None]:
    """Put the reply to a question that is asked again in its place (decision 0048)."""
    view, relevant, scores = ranking.view, ranking.relevant, ranking.total.scores
    ordered = scores
    if not ranking.query.stating and view.neighbours:
        column, following = view.column, view.neighbours[0][1]
        found = np.flatnonzero(ranking.repeated & relevant)
        found = found[following[found] < view.size]
        if len(found) and asks(ranking.query.text):
            replies = following[found]
            by_other = column["machine"][found] != column["machine"][replies]
            by_other |= column["label"][found] != column["label"][replies]
            echo = ranking.total.shares["echo"]
            may_answer = by_other & (echo[replies] >= 0) & ~ranking.below_sources[replies]
            # Its own place, where it was not put below what an earlier answer came from.
            place = apply_weights(ranking.total.sums - echo, ranking.total.weights)
            best: list[int] = best_positions(place, found[may_answer], MAX_QUESTIONS).tolist()
            reply_to = {question: int(following[question]) for question in best}
            texts = yield from texts_at(view, {*reply_to, *reply_to.values()})
            only_asks = {at: all(map(asks, sentences(text))) for at, text in texts.items()}
            ordered = scores.copy()
            for question, reply in reply_to.items():
                if only_asks[question] and not only_asks[reply]:
                    ordered[reply] = max(ordered[reply], place[question])
                    ordered[question] = min(ordered[question], ordered[reply] - RANK_GAP)
                    relevant[reply] = True
    ranking.total.add_change("reply", scores, ordered)


def _raise_standing_facts(ranking: Ranking) -> Choice[None]:
    """Put the user's facts under keys above talk about the same."""
    yield from ()
    total = ranking.total
    standing = StandingFacts(ranking.view, total.sums, total.weights)
    standing.demote_shared(ranking.relevant)
    standing.promote(ranking.query, ranking.wording, ranking.like, ranking.min_score)
    total.add(standing=standing.share)


def _follow_names(ranking: Ranking) -> Choice[None]:
    """Raise what the best current records name, while comparing the best with one another."""
    variants = ranking.variants
    hops = Hops(ranking.wording, ranking.like, ranking.total)
    comparable = np.flatnonzero(ranking.relevant)
    best = best_positions(ranking.total.scores, comparable, MAX_COMPARED).tolist()
    yield from variants.compare(best)
    for _ in range(MAX_STEPS):
        leads = [one for one in best if one not in variants.replaced_by][:MAX_LEADS]
        if not hops.follow(leads):
            break
        best = best_positions(hops.scores, comparable, MAX_COMPARED).tolist()
        yield from variants.compare(best)
    ranking.total.add(named=hops.share)


def _put_newest_first(ranking: Ranking) -> Choice[None]:
    """Put the newest of several statements about one thing in the best place of them all."""
    variants, scores = ranking.variants, ranking.total.scores
    if not ranking.query.about_past:
        yield from variants.follow_facts(scores, ranking.wording, ranking.relevant)
    variants.mark_outdated(ranking.outdated)
    ranking.total.add_change("update", scores, variants.put_newest_first(scores))


STAGES = (
    _add_likeness,
    _lower_echoes,
    _lower_nods,
    _answer_repeated_questions,
    _raise_standing_facts,
    _follow_names,
    _put_newest_first,
)
"""What changes the scores, in this order, after the shares that need no vector (`Draft`)."""


class Trace:
    """Follows one recall, to explain its result. Recall fills it, and is the same without it.

    `ranked`: the matching records in order, the first `wanted` of them and those down to the
    followed one. `left_out`: why records were left out of the answer, by row.
    """

    def __init__(self, *, wanted: int, row: int | None = None) -> None:
        """`row`: the record to follow."""
        self.row = row
        self.ranked: list[RankedRecord] = []
        self.left_out: dict[int, LeftOut] = {}
        self.search: Search | None = None
        self.candidates = self.matching = 0
        self.unmatched: RankedRecord | None = None
        """The followed record, if it is a candidate and does not match."""
        self.dropped_by: str | None = None
        """The stage that left the followed record out, though it matched."""
        self._wanted = wanted
        self._matched = False

    def watch(self, stage: Callable[[Ranking], Choice[None]], ranking: Ranking) -> None:
        """Note whether a stage left the followed record out."""
        matches = any(ranking.relevant[position] for position in self._positions(ranking))
        if matches:
            self.dropped_by = None
        elif self._matched:
            self.dropped_by = stage.__name__.removeprefix("_")
        self._matched = matches

    def follow(self, ranking: Ranking) -> Iterator[RankedRecord]:
        """Yield the matching records, best first, and note them."""
        self.candidates, self.matching = ranking.view.size, int(ranking.relevant.sum())
        positions = self._positions(ranking)
        if positions and not self._matched:
            (self.unmatched,) = ranking.records_at(positions)
        for record in ranking.best_first():
            self.ranked.append(record)
            yield record

    def leave_out(self, rows: Iterable[int], why: LeftOut) -> None:
        """Note why records that match are not in the answer."""
        self.left_out |= dict.fromkeys(rows, why)

    def finish(self, rest: Iterator[RankedRecord]) -> None:
        """Note the records that recall had no need to look at, as far as they are wanted."""
        seen = any(record.row == self.row for record in self.ranked)
        while len(self.ranked) < self._wanted or (self._matched and not seen):
            record = next(rest, None)
            if record is None:
                break
            seen = seen or record.row == self.row

    def _positions(self, ranking: Ranking) -> list[int]:
        """The position of the followed record, if it is a candidate."""
        return [] if self.row is None else ranking.view.positions([self.row]).tolist()


def shown_scores(sums: Array) -> Array:
    """The scores that items show: more is always more, and never quite 1."""
    squares = np.maximum(sums, 0.0) ** 2
    return np.asarray(squares / (squares + HALF_SCORE**2))


def _weights_in_other_sessions(view: View, weights: Weights) -> Array:
    by_scope = view.names.scopes.map_values(weights.in_other_sessions)
    ended = view.column["type"] == view.names.types.number_of("task")
    return np.asarray(by_scope[view.column["scope"]] * np.where(ended, ENDED, 1.0))


def _firsthand(view: View) -> Array:
    return np.asarray(FIRSTHAND * (~view.column["machine"] & (view.column["firsthand"] > 0)))


def _timed(view: View, asks_when: bool) -> Array:
    shares = TIMED * (view.column["firsthand"] > 0) + TIMED_WHEN * asks_when
    return np.asarray(~view.column["machine"] * view.column["timed"] * shares)


def _dense(view: View) -> Array:
    of_tools = view.column["source"] == view.names.sources.number_of("observed")
    share = np.where(view.column["machine"], DENSITY_OF_TOOLS * of_tools, DENSITY)
    return np.asarray(share * view.column["density"])


def _wishes(view: View) -> Positions:
    return np.flatnonzero(~view.column["machine"] & view.column["wish"] & view.with_assistant)


def _recent(view: View) -> Array:
    return np.asarray(RECENT / (1 + view.sessions_back / RECENT_SESSIONS))


def _importance(view: View) -> Array:
    return np.asarray(IMPORTANCE * (view.column["importance"] - 0.5))


def _fading(view: View) -> tuple[Array, Array]:
    """Each record's maximum loss through age, and the days until half of it is lost."""
    names, durability = view.names.durabilities, view.column["durability"]
    loss = names.map_values(lambda name: FADING.get(name, (0.0, 1.0))[0])
    half_life = names.map_values(lambda name: FADING.get(name, (0.0, 1.0))[1])
    return loss[durability], half_life[durability]


def _is_nod(said: str, replied: str) -> bool:
    """Whether a reply says nothing of its own, though nothing was asked."""
    if any(map(asks, sentences(said))) or any(map(is_question, sentences(replied))):
        return False  # "How lovely!" asks nothing
    added = informative_stems(replied) - informative_stems(said)
    has_number = any(char.isdigit() for word in added for char in word)  # a time, a code
    return len(added) <= NOD_WORDS and not has_number


def _short_replies(view: View) -> Positions:
    """The replies of assistants to people that are short, or as short as the statement."""
    if not view.neighbours:
        return np.zeros(0, np.int64)
    column, before = view.column, view.neighbours[0][0]
    answered = column["spoken"] & (column["source"] == view.names.sources.number_of("answered"))
    found = np.flatnonzero(answered & (before < view.size))
    length, statement_length = column["length"][found], column["length"][before[found]]
    is_short = length <= np.maximum(NOD_CHARACTERS, NOD_LENGTH * statement_length)
    return np.asarray(found[is_short & ~column["machine"][before[found]]])


def sorted_pages(
    scores: Array, relevant: Positions, column: Mapping[str, Any]
) -> Iterator[list[int]]:
    """Yield the relevant positions in pages, best first; among equal scores, oldest first."""
    while len(relevant):
        chosen = relevant
        if len(relevant) > PAGE:
            values = scores[relevant]
            threshold = np.partition(values, -PAGE)[-PAGE]
            chosen = relevant[np.flatnonzero(values >= threshold)]
        best = chosen[np.lexsort((column["row"][chosen], -scores[chosen]))].tolist()
        yield spread_sessions(
            best,
            dict(zip(best, scores[best].tolist(), strict=True)),
            dict(zip(best, column["session"][best].tolist(), strict=True)),
        )
        relevant = np.setdiff1d(relevant, chosen)


def spread_sessions(
    order: Sequence[int], scores: Mapping[int, float], sessions: Mapping[int, int]
) -> list[int]:
    """After the first places, prefer sessions without a result: an answer may need several.

    `order` has the highest score first.
    """
    chosen, rest = list(order[:SURE]), list(order[SURE:])
    seen = {sessions[i] for i in chosen}
    while rest and len(chosen) < SPREAD:
        best, ahead = rest[0], rest[: SPREAD + SURE]
        of_new_session = next((i for i in ahead if sessions[i] not in seen), best)
        if scores[of_new_session] + NEW_SESSION > scores[best]:
            best = of_new_session
        rest.remove(best)
        chosen.append(best)
        seen.add(sessions[best])
    return chosen + rest
