"""Rules of precedence between a record and what it repeats or is about.

- An echo, such as an answer from memory or a repeated question, ranks below a source of it that is
  found as well, if the source has every word of this question that the echo has, or the echo
  contains all that the source says. It may add something to it, so it is never left out.
- A question that got no answer, and the refusal, rank below everything with content.
- A fact extracted from messages ranks below them, if they are searched as well.
- A fact that the user stored under a key ranks above talk about the same: it is valid, while the
  talk may be outdated, a question, or a model's mistake.
- A fact that others share under a `user.*` key never ranks above the user's own fact of that key.
"""

from collections import Counter
from collections.abc import Mapping
from functools import lru_cache

import numpy as np

from local2.keys import is_user_topic
from local2.language.questions import without_questions
from local2.language.words import informative_stems, stems, words
from local2.ledger.columns import ECHO, EXTRACTED, UNANSWERED, Array, Flags, Positions, View
from local2.ledger.search import Choice, DetailRequest
from local2.memory.intake.episodes import split_episode
from local2.memory.recall.likeness import Likeness, Wording
from local2.memory.recall.query import Query
from local2.memory.recall.scores import (
    apply_weights,
    best_positions,
    remove_weights,
    texts_at,
)
from local2.memory.recall.tuning import (
    ANSWER_COSINE,
    ANSWER_COVERAGE,
    BELOW_ECHO,
    BELOW_SOURCE,
    MAX_BELOW,
    MAX_ECHOES,
    MAX_PROMOTED,
    MAX_READ,
    NO_ANSWER,
    RANK_GAP,
    SAME,
    UNASKED,
)


class Echoes:
    """Ranks echoes below their sources. `share` is their loss.

    `below`: the echoes with such a source; some stand below it without a loss.
    """

    def __init__(self, wording: Wording, sums: Array, weights: Array) -> None:
        """`sums`: the sums of the other shares."""
        view = wording.view
        self.share = view.derive(_no_answers).copy()
        self.below: Flags = np.zeros(view.size, bool)
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
                self.below[position] = True
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
        # What nobody states, such as a mistyped word, no source can have.
        own, said = has[:, position] & self._wording.stated, stated.get(position)
        if said is not None:
            # Without a dtype, the list of a question without terms would be of floats.
            own = own & np.array(
                [not said.isdisjoint(term.stems) for term in self._wording.terms], bool
            )
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
        if not len(answers):
            return
        likeness = like.own.copy()
        keys, key = self._view.names.topics.values, self._view.column["topic"]
        for fact in answers:  # who asks for his name does not ask for his wife's
            likeness[fact] -= UNASKED * len(_key_stems(keys[key[fact]]) - wording.stems)
        best = best_positions(likeness, answers, MAX_PROMOTED)
        rivals = self._view.column["spoken"].copy()
        informative = np.ones(self._view.size, bool)
        if query.of_oneself:  # models' words and repetitions say nothing about the asking user
            informative = ~(self._view.column["machine"] | repeats_question(wording, like))
        coverage = wording.own_coverage
        for position in best[::-1].tolist():
            outranked = rivals & ~(informative & (coverage > coverage[position]))
            scores = apply_weights(self._sums + self.share, self._weights)
            score = float(scores[outranked].max(initial=-np.inf)) + RANK_GAP
            if score > self._score(position):
                self._set_score(position, score)
            rivals[position] = True  # better answers, which follow, rank above it

    def _score(self, position: int) -> float:
        total = self._sums[position] + self.share[position]
        return float(apply_weights(total, self._weights[position]))

    def _set_score(self, position: int, score: float) -> None:
        weight = float(self._weights[position])
        wanted = score / weight if score >= 0 else score * weight
        self.share[position] = wanted - float(self._sums[position])


@lru_cache(maxsize=1_000)
def _key_stems(topic: str) -> frozenset[str]:
    """The stems of a topic key without its prefix."""
    _, _, thing = topic.partition(".")
    return frozenset(stems(words(thing.replace("_", " ").replace(".", " "))))


def _keyed_facts(view: View) -> tuple[Positions, Positions]:
    """The user's own facts with a key, and those that others share."""
    extracted = view.column["echo"] == EXTRACTED  # these are represented by their messages
    keyed = np.flatnonzero((view.column["topic"] >= 0) & ~extracted)
    is_own = view.column["scope"][keyed] == view.names.scopes.number_of("user")
    return keyed[is_own], keyed[~is_own]


def repeats_question(wording: Wording, like: Likeness) -> Flags:
    """Which records ask the same as the question, provided that they ask something."""
    return np.asarray(wording.repeats | (like.cosine >= SAME))
