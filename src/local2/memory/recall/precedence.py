"""Rules of precedence that override the scores of results.

- An echo, such as an answer from memory or a repeated question, ranks below a source of it that is
  found as well, if the source has every word of this question that the echo has, or the echo
  contains all that the source says. It may add something to it, so it is never left out.
- A question that got no answer, and the refusal, rank below everything with content.
- A reply that says nothing, such as "Noted." after a statement, ranks below everything else: it
  matches by the words of its neighbours. A reply to a question is none, however short it is.
- A question that is asked again gives its place to the reply that it got (decision 0048).
- A fact extracted from messages ranks below them, if they are searched as well.
- A fact that the user stored under a key ranks above talk about the same: it is valid, while the
  talk may be outdated, a question, or a model's mistake.
- A fact that others share under a `user.*` key never ranks above the user's own fact of that key.
- After the first ten places, sessions without a result so far are preferred.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import chain
from typing import Any, TypeVar

import numpy as np

from local2.keys import is_user_topic
from local2.language.questions import asks, without_questions
from local2.language.sentences import sentences
from local2.language.words import informative_stems
from local2.ledger.columns import ECHO, EXTRACTED, UNANSWERED, Array, Flags, Positions, View
from local2.ledger.search import Choice, DetailRequest
from local2.memory.intake.episodes import split_episode
from local2.memory.recall.likeness import Likeness, Wording
from local2.memory.recall.query import Query
from local2.memory.recall.tuning import (
    ANSWER_COSINE,
    ANSWER_COVERAGE,
    BELOW_ECHO,
    BELOW_SOURCE,
    MAX_BELOW,
    MAX_ECHOES,
    MAX_NODS,
    MAX_PROMOTED,
    MAX_QUESTIONS,
    MAX_READ,
    NEW_SESSION,
    NO_ANSWER,
    NOD,
    NOD_CHARACTERS,
    NOD_LENGTH,
    NOD_WORDS,
    RANK_GAP,
    SAME,
    SPREAD,
    SURE,
)

T = TypeVar("T")
PAGE = 100
"""Number of results sorted in one step; further results are sorted when they are needed."""


def apply_weights(sums: Array, weights: Array) -> Array:
    """The scores of sums of shares; a larger weight always raises the score."""
    if np.min(sums, initial=0.0) >= 0.0:  # mostly
        return np.asarray(sums * weights)
    return np.asarray(np.maximum(sums, 0.0) * weights + np.minimum(sums, 0.0) / weights)


def remove_weights(scores: Array, weights: Array) -> Array:
    """The sums of shares that give these scores; the inverse of `apply_weights`."""
    return np.asarray(np.maximum(scores, 0.0) / weights + np.minimum(scores, 0.0) * weights)


class Total:
    """The shares of all records, by name, and their sums."""

    def __init__(self, shares: Mapping[str, Array], sums: Array, weights: Array) -> None:
        self.shares = dict(shares)
        self.sums = sums
        self.weights = weights
        self._scores: Array | None = None

    @property
    def scores(self) -> Array:
        if self._scores is None:
            self._scores = apply_weights(self.sums, self.weights)
        return self._scores

    def add(self, **shares: Array) -> None:
        self.shares |= shares
        if changing := [share for share in shares.values() if share.any()]:
            self.sums = sum(changing, self.sums)
            self._scores = None

    def add_change(self, name: str, before: Array, after: Array) -> None:
        """Add the share that changes scores; it is 0 where they stay the same."""
        share = np.zeros(len(after))
        if after is not before:
            (at,) = np.nonzero(after != before)
            share[at] = remove_weights(after[at], self.weights[at]) - self.sums[at]
        self.add(**{name: share})


def best_positions(scores: Array, among: Positions, limit: int) -> Positions:
    """The positions with the highest scores, best first; among equal ones, the first."""
    if len(among) > limit:
        values = scores[among]
        # Faster than to select by flags.
        among = among[np.flatnonzero(values >= np.partition(values, -limit)[-limit])]
    return among[np.argsort(-scores[among], kind="stable")][:limit]


def texts_at(view: View, positions: Iterable[int]) -> Choice[dict[int, str]]:
    """The beginnings of the texts at these positions."""
    rows = {position: int(view.column["row"][position]) for position in positions}
    texts = (yield DetailRequest(texts=list(rows.values()))).texts if rows else {}
    return {position: texts.get(row, "") for position, row in rows.items()}


def found_in_texts(
    view: View, find: Callable[..., T], wanted: Sequence[tuple[int, ...]]
) -> Choice[dict[tuple[int, ...], T]]:
    """What `find` finds in the beginnings of the texts at some positions, one or several at a time.

    It is kept from one question to the next, since a row's text stays.
    """
    if not wanted:
        return {}
    known = view.found_in_texts(find)
    rows_of_each = view.column["row"][np.array(wanted)].tolist()
    rows = dict(zip(wanted, map(tuple, rows_of_each), strict=True))
    unread = [positions for positions in wanted if rows[positions] not in known]
    texts = yield from texts_at(view, {*chain.from_iterable(unread)})
    for positions in unread:
        known[rows[positions]] = find(*(texts[position] for position in positions))
    return {positions: known[rows[positions]] for positions in wanted}


class Echoes:
    """Ranks echoes below their sources. `share` is their loss."""

    def __init__(self, wording: Wording, sums: Array, weights: Array) -> None:
        """`sums`: the sums of the other shares."""
        view = wording.view
        self.share = view.derive(_no_answers).copy()
        self.outdated: dict[int, int] = {}
        """Maps positions of echoes to the rows of the facts that now hold instead."""
        self._view, self._wording, self._sums, self._weights = view, wording, sums, weights
        self._best = best_positions(sums, view.derive(_echoes), MAX_ECHOES)

    def demote(self, relevant: Flags, repeated: Flags) -> Choice[None]:
        """Rank the echoes below their sources. A fact extracted from messages is left out for them.

        `repeated`: the records that ask the same as the question.
        """
        if not len(self._best):
            return
        view, column = self._view, self._view.column
        rows: list[int] = column["row"][self._best].tolist()
        known = (yield DetailRequest(sources=rows)).sources
        sources = {
            position: view.positions(
                [row for row, _ in known.get(int(column["row"][position]), ())]
            )
            for position in self._best.tolist()
        }
        stated = yield from self._stated(sources)
        asks_again = repeated & ~column["machine"]
        by_source = Counter[int]()
        # Oldest first: an echo may be the source of a later one.
        for position in sorted(sources, key=column["row"].__getitem__):
            above = sources[position]
            if column["echo"][position] == EXTRACTED:
                relevant[above] |= relevant[position]
                relevant[position] &= not len(above)
                continue
            above = above[relevant[above]]
            if not asks_again[position]:
                above = above[self._repeats(position, above, stated)]
            if len(above):
                again = MAX_BELOW if asks_again[position] else 0.0
                scores = apply_weights((self._sums + self.share)[above], self._weights[above])
                best = int(scores.argmax())
                source = int(above[best])
                gap = max(again, min(BELOW_SOURCE + BELOW_ECHO * by_source[source], MAX_BELOW))
                by_source[source] += 1
                allowed = float(remove_weights(scores[best] - gap, self._weights[position]))
                self.share[position] = min(0.0, allowed - float(self._sums[position]))
                shown = column["row"][above].tolist()
                known_here = known[int(column["row"][position])]
                if replacing := [row for row, replaces in known_here if replaces and row in shown]:
                    self.outdated[position] = max(replacing)

    def _stated(self, sources: Mapping[int, Positions]) -> Choice[dict[int, frozenset[str]]]:
        """The stems that the best echoes and their sources state, by position.

        An episode holds the question that it answered, with all words of one who asks again: of it,
        the user's statements count or, if there are none, the answer.
        """
        best: list[int] = self._best.tolist()
        echoes = [position for position in best if self._view.column["echo"][position] == ECHO]
        read = [
            position for echo in echoes[:MAX_READ] for position in (echo, *sources[echo].tolist())
        ]
        stated = {}
        for position, text in (yield from texts_at(self._view, set(read))).items():
            said = text
            if not self._view.column["spoken"][position]:
                question, answer = split_episode(text)
                said = without_questions(question) or answer
            stated[position] = informative_stems(said)
        return stated

    def _repeats(
        self, position: int, sources: Positions, stated: Mapping[int, frozenset[str]]
    ) -> Flags:
        """Which sources have every word of the question that an echo has, or are in it."""
        has = self._wording.has_terms
        own, said = has[:, position], stated.get(position)
        if said is not None:
            # Without a dtype, the list of a question without terms would be of floats.
            own = own & np.array([term.stem in said for term in self._wording.terms], bool)
        # A source of an echo that was not read itself has not been read either.
        whole = [
            bool(said and (text := stated.get(source)) and text <= said)
            for source in sources.tolist()
        ]
        return np.asarray(~(own[:, None] & ~has[:, sources]).any(axis=0) | np.array(whole, bool))


def _no_answers(view: View) -> Array:
    """The share of questions without an answer, and of refusals."""
    return np.where(view.column["echo"] == UNANSWERED, NO_ANSWER, 0.0)


def _echoes(view: View) -> Positions:
    return np.flatnonzero(np.isin(view.column["echo"], (ECHO, EXTRACTED)))


class StandingFacts:
    """Ranks facts with a topic key. `share` is their gain or loss beside the other `sums`."""

    def __init__(self, view: View, sums: Array, weights: Array) -> None:
        self._view, self._sums, self._weights = view, sums, weights
        self.share = np.zeros(view.size)
        self._own, self._shared = view.derive(_keyed_facts)

    def demote_shared(self, relevant: Flags) -> None:
        """Rank shared facts with a `user.*` key below the user's own, which become relevant."""
        topic = self._view.column["topic"]
        same_key = self._shared[np.isin(topic[self._shared], topic[self._own])]
        if not len(same_key):
            return
        is_user_key = self._view.names.topics.map_values(is_user_topic).astype(bool)
        for position in same_key[is_user_key[topic[same_key]] & relevant[same_key]].tolist():
            own = self._own[topic[self._own] == topic[position]]
            relevant[own] = True
            highest = min(map(self._score, own.tolist())) - RANK_GAP
            self._set_score(position, min(self._score(position), highest))

    def promote(self, query: Query, wording: Wording, like: Likeness, min_score: float) -> None:
        """Rank the user's facts that answer above messages that cover no more of the question."""
        if query.window is not None or not len(self._own):
            return
        is_answer: Flags = wording.own_coverage[self._own] >= ANSWER_COVERAGE
        if query.of_oneself:
            cosine = like.cosine[self._own]
            is_answer |= (cosine >= min_score + ANSWER_COSINE) & (cosine == cosine.max())
        answers = np.asarray(self._own[is_answer])
        best = best_positions(like.own, answers, MAX_PROMOTED)
        if not len(best):
            return
        rivals = self._view.column["spoken"].copy()
        informative = np.ones(self._view.size, bool)
        if query.of_oneself:  # models' words and repetitions say nothing about the asking user
            informative = ~(self._view.column["machine"] | repeats_question(wording, like))
        coverage = wording.own_coverage
        for position in best[::-1].tolist():
            outranked = rivals & ~(informative & (coverage > coverage[position]))
            score = float(self._scores()[outranked].max(initial=-np.inf)) + RANK_GAP
            if score > self._score(position):
                self._set_score(position, score)
                rivals[position] = True  # better answers, which follow, rank above it

    def _scores(self) -> Array:
        return apply_weights(self._sums + self.share, self._weights)

    def _score(self, position: int) -> float:
        total = self._sums[position] + self.share[position]
        return float(apply_weights(total, self._weights[position]))

    def _set_score(self, position: int, score: float) -> None:
        weight = float(self._weights[position])
        wanted = score / weight if score >= 0 else score * weight
        self.share[position] = wanted - float(self._sums[position])


def _keyed_facts(view: View) -> tuple[Positions, Positions]:
    """The user's own facts with a key, and those that others share."""
    extracted = view.column["echo"] == EXTRACTED  # these are represented by their messages
    keyed = np.flatnonzero((view.column["topic"] >= 0) & ~extracted)
    is_own = view.column["scope"][keyed] == view.names.scopes.number_of("user")
    return keyed[is_own], keyed[~is_own]


def repeats_question(wording: Wording, like: Likeness) -> Flags:
    """Which records ask the same as the question, provided that they ask something."""
    return np.asarray(wording.repeats | (like.cosine >= SAME))


def find_nods(view: View, total: Total, relevant: Flags) -> Choice[Array]:
    """The share of the short replies of assistants that say nothing of their own."""
    share = np.zeros(view.size)
    short_replies = view.derive(_short_replies)
    found = short_replies[relevant[short_replies]]
    if not len(found):
        return share
    before = view.neighbours[0][0]
    replies = best_positions(total.scores, found, MAX_NODS)
    pairs = list(zip(before[replies].tolist(), replies.tolist(), strict=True))
    nods = yield from found_in_texts(view, _is_nod, pairs)
    share[[reply for said, reply in pairs if nods[said, reply]]] = NOD
    return share


def _is_nod(said: str, replied: str) -> bool:
    """Whether a reply says nothing of its own, though nothing was asked."""
    if any(map(asks, sentences(f"{said}\n{replied}"))):
        return False
    return len(informative_stems(replied) - informative_stems(said)) <= NOD_WORDS


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


def put_replies_first(
    view: View, query: Query, repeated: Flags, scores: Array, relevant: Flags
) -> Choice[Array]:
    """The scores, with replies in the places of questions that are asked again.

    `repeated`: the records that ask the same as the question, as far as their words tell.
    """
    if query.stating or not view.neighbours:
        return scores
    column, following = view.column, view.neighbours[0][1]
    found = np.flatnonzero(repeated & relevant)
    found = found[following[found] < view.size]
    if not len(found) or not asks(query.text):  # mostly, nothing was asked before
        return scores
    replies = following[found]
    by_other = column["machine"][found] != column["machine"][replies]
    by_other |= column["label"][found] != column["label"][replies]
    may_answer = by_other & ~np.isin(column["echo"][replies], (ECHO, UNANSWERED))
    best: list[int] = best_positions(scores, found[may_answer], MAX_QUESTIONS).tolist()
    reply_to = {question: int(following[question]) for question in best}
    texts = yield from texts_at(view, {*reply_to, *reply_to.values()})
    only_asks = {position: all(map(asks, sentences(text))) for position, text in texts.items()}
    ordered = scores.copy()
    for question, reply in reply_to.items():
        if only_asks[question] and not only_asks[reply]:
            ordered[reply] = max(ordered[reply], ordered[question])
            ordered[question] = min(ordered[question], ordered[reply] - RANK_GAP)
            relevant[reply] = True
    return ordered


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
        yield _spread_sessions(
            best,
            dict(zip(best, scores[best].tolist(), strict=True)),
            dict(zip(best, column["session"][best].tolist(), strict=True)),
        )
        relevant = np.setdiff1d(relevant, chosen)


def _spread_sessions(
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
