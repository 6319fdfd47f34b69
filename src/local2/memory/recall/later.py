"""Find what to show beside an item: the reply that a question got, and later statements.

Which statement holds is not decided here, and no rank changes: whoever reads an item sees what its
speaker said about the same thing afterwards. What only asks is no statement. Beside what a person
asked stands the reply, since it is the reply that answers. Beside what an assistant said stands
what one said later about the same thing. A correction in the next message stands there, however
little it shares with what it corrects. All else in this module knows no language.

Two records are about the same thing if their vectors are much closer than each of them usually is
to statements, or closer and they share a rare word. Besides, the later one matches the question, or
shares a word with the first item that hardly another record has: who asks for the car is told of
the Saab's end. The first item needs less closeness than the others, since it is what a reader
takes. A message is compared together with its reply, or with what it replies to: "Sold it." says
little alone.
"""

import math
import weakref
from collections.abc import Callable, Iterable, Sequence
from functools import cached_property, partial
from itertools import chain
from typing import NamedTuple

import numpy as np

from local2.language.corrections import MAX_CORRECTION, begins_correction
from local2.language.names import may_be_name
from local2.language.questions import asking
from local2.language.words import stems, words
from local2.ledger.columns import ECHO, EXTRACTED, UNANSWERED, Array, Flags, Positions, View
from local2.ledger.search import Choice, Matches
from local2.ledger.stored_vectors import Floats
from local2.memory.recall.likeness import EPSILON
from local2.memory.recall.precedence import best_positions, texts_at
from local2.memory.recall.tuning import (
    ASKING,
    ASSUMED_DEVIATION,
    ASSUMED_MEAN,
    COMMON,
    DATE_NUMBERS,
    FIRST_ITEM_NEEDS,
    LATER_ASSUMED,
    LATER_CANDIDATES,
    LATER_OVERLAP,
    LATER_RELEVANCE,
    LATER_SAMPLE,
    MAX_LATER,
    MAX_READ_LATER,
    MAX_RELEVANCE,
    MAX_RESTATED,
    MAX_SHARERS,
    MIN_CLOSENESS,
    MIN_LATER,
    MIN_RELEVANCE,
    NOTHING_SAID,
    OTHER_ITEMS_NEED,
    RESTATED_NEEDS,
    SHORT,
)
from local2.memory.recall.variants import USER_STRENGTH, notes_of_turns, source_strengths


class LaterStatements:
    """The statements of people that match a question, compared with items when asked for.

    A later statement is newer, by the speaker of the item, by a person, with a vector of the
    question's embedder, and close (`MIN_CLOSENESS`, `MIN_LATER`, `FIRST_ITEM_NEEDS` or
    `OTHER_ITEMS_NEED`). It is among the best `LATER_CANDIDATES` and relevant (`MIN_RELEVANCE`), or
    shares a word with the first item that at most `MAX_SHARERS` records have. What says the same as
    the item, or stands no longer, is left out in `results.py`.

    Several items are compared in one step: what each step costs does not depend on their number.
    Texts are read once, and only short ones.
    """

    def __init__(self, found: Matches, scores: Array, relevant: Flags) -> None:
        self._assumed_mean = found.floor + (1 - found.floor) * ASSUMED_MEAN
        self._assumed_deviation = (1 - found.floor) * ASSUMED_DEVIATION
        self._view = found.view
        self._embedder = found.embedder
        self._compared = found.has_comparable_vector()
        self._scores = scores
        self._relevant = relevant
        self._rarities = found.view.derive(_Rarities)
        self._rarest = _rarest(found.view)

    def beside(self, rows: Sequence[int]) -> Choice[list[list[int]]]:
        """Return for each row at most three rows of what stands beside it, the best first."""
        if not rows:
            return []
        found = self._view.positions(rows)
        positions: list[int] = found.tolist()
        later = self._later_than(found)
        replies, nexts = (array[found].tolist() for array in self._view.derive(_followed))
        asking = yield from self._asking([*positions, *chain.from_iterable(later)])
        size = self._view.size
        replied = {
            at: [reply]
            for at, reply in zip(positions, replies, strict=True)
            if reply < size and asking.get(at, 0.0) >= ASKING
        }
        pairs = [(at, next_) for at, next_ in zip(positions, nexts, strict=True) if next_ < size]
        corrections = yield from self._corrections(pairs)
        first_ones = positions[:MAX_RESTATED]
        answered = chain.from_iterable(replied.get(at, ()) for at in first_ones)
        restated = self._restated({*first_ones, *answered})
        row = self._view.column["row"]
        beside = []
        for at, statements in zip(positions, later, strict=True):
            first = [*replied.get(at, ()), *corrections.get(at, ())]
            first += restated.get(first[0] if first else at, ())
            rest = [one for one in statements if one not in first and asking.get(one, 0.0) < 1]
            beside.append(row[[*first, *rest][:MAX_LATER]].tolist())
        return beside

    def _later_than(self, positions: Positions) -> list[list[int]]:
        """Return for each record the positions of later statements about the same, best first."""
        partners = _partners(self._view, positions)
        candidates = self._find_candidates(int(positions[0]))
        may_be_later = self._is_newer(positions, partners, candidates)
        may_be_later &= self._compared[positions, None]
        if not may_be_later.any():
            return [[] for _ in positions]
        relevance = self._relevance_of(candidates)
        from_items = _unit_vectors(self._view, self._embedder, positions)
        from_candidates = _unit_vectors(self._view, self._embedder, candidates)
        cosines = from_items @ from_candidates.T
        sample = self._view.derive(_sample, self._embedder)
        usual = self._usual_cosines(positions, from_items, sample)
        usual_of_later = self._usual_cosines(candidates, from_candidates, sample)
        closeness = _closeness(cosines, usual, usual_of_later)
        may_be_later &= closeness >= MIN_CLOSENESS
        may_be_later &= self._stands_out(positions, candidates, cosines, usual)
        said = [
            {*self._view.stems(position), *self._stems_of_partner(partner)}
            for position, partner in zip(positions.tolist(), partners.tolist(), strict=True)
        ]
        labels: list[int] = self._view.column["label"][candidates].tolist()
        values = self._view.names.labels.values
        # A speaker's name is in the stems, and is not what they say.
        names = {label: frozenset(stems(words(values[label] or ""))) for label in set(labels)}
        said_later = [
            {*self._view.stems(candidate)} - names[label]
            for candidate, label in zip(candidates.tolist(), labels, strict=True)
        ]
        short = self._view.column["length"][candidates] <= NOTHING_SAID
        numbers = [sum(map(str.isdigit, self._view.stems(one))) for one in candidates.tolist()]
        says_nothing = short & (np.array(numbers) <= DATE_NUMBERS)  # mostly thanks and goodbyes
        found: list[list[tuple[float, int]]] = [[] for _ in positions]
        items, near = np.nonzero(may_be_later)
        for item, candidate, how_close, how_relevant in zip(
            items.tolist(),
            near.tolist(),
            closeness[items, near].tolist(),
            relevance[near].tolist(),
            strict=True,
        ):
            close, rare = FIRST_ITEM_NEEDS if item == 0 else OTHER_ITEMS_NEED
            rarities = [self._rarities[stem] for stem in said[item] & said_later[candidate]]
            rarest = max(rarities, default=0.0)
            if how_close < close and rarest < min(rare, self._rarest):
                continue
            if not rarest and says_nothing[candidate]:
                continue
            # The order of a set is not always the same, nor then the sum of floats.
            overlap = math.fsum(rarities)
            total = how_close + LATER_RELEVANCE * how_relevant + LATER_OVERLAP * overlap
            if total >= MIN_LATER:
                found[item].append((total, int(candidates[candidate])))
        return [
            [later for _, later in sorted(statements, reverse=True)[:MAX_READ_LATER]]
            for statements in found
        ]

    def _restated(self, positions: Iterable[int]) -> dict[int, list[int]]:
        """Return, for what assistants said, what an assistant said later about the same thing.

        They are compared without what they reply to, must be close, and share a rare word.
        """
        view, time = self._view, self._view.column["newness"]
        answers = view.derive(_answers, self._embedder)
        said = np.array([at for at in positions if answers[at]], np.int64)
        if not len(said):
            return {}
        candidates = np.flatnonzero(answers & self._relevant)
        candidates = best_positions(self._scores, candidates, LATER_CANDIDATES)
        if not len(candidates):
            return {}
        of_said, of_later = view.vectors_at(said), view.vectors_at(candidates)
        cosines = of_said @ of_later.T
        cosines[time[candidates] <= time[said][:, None]] = -1.0
        nearest = cosines.argmax(axis=1)
        each = np.arange(len(said))
        sample = view.derive(_answers_sample, self._embedder)
        usual = self._usual_cosines(said, of_said, sample)
        usual_of_later = self._usual_cosines(candidates[nearest], of_later[nearest], sample)
        closeness = _closeness(cosines[:, nearest], usual, usual_of_later)[each, each]
        close, rare = RESTATED_NEEDS
        found = {}
        for number in np.flatnonzero(closeness >= close).tolist():
            at, later = int(said[number]), int(candidates[nearest[number]])
            common = {*view.stems(at)} & {*view.stems(later)}
            rarest = max((self._rarities[stem] for stem in common), default=0.0)
            if rarest >= min(rare, self._rarest):
                found[at] = [later]
        return found

    def _asking(self, positions: Iterable[int]) -> Choice[dict[int, float]]:
        """Return how much of each text asks; long ones are left out."""
        view, row, length = self._view, self._view.column["row"], self._view.column["length"]
        known: dict[int, float] = view.found_in_texts("asking")
        every = np.array([*{*positions}], np.int64)
        every = every[length[every] <= SHORT]
        short = dict(zip(every.tolist(), row[every].tolist(), strict=True))
        texts = yield from texts_at(view, [at for at in short if short[at] not in known])
        known |= {short[at]: asking(text) for at, text in texts.items()}
        return {at: known[short[at]] for at in short}

    def _corrections(self, pairs: Sequence[tuple[int, int]]) -> Choice[dict[int, list[int]]]:
        """Return what its speaker said next, for each record that it corrects."""
        view, row = self._view, self._view.column["row"]
        known: dict[tuple[int, int], bool] = view.found_in_texts("corrections")
        keys = {pair: (int(row[pair[0]]), int(row[pair[1]])) for pair in pairs}
        unknown = [pair for pair in pairs if keys[pair] not in known]
        texts = yield from texts_at(view, {*chain.from_iterable(unknown)})
        for at, next_ in unknown:
            known[keys[at, next_]] = begins_correction(texts[next_], texts[at])
        return {at: [next_] for at, next_ in pairs if known[keys[at, next_]]}

    def _stems_of_partner(self, partner: int) -> tuple[str, ...]:
        return self._view.stems(partner) if partner < self._view.size else ()

    def _stands_out(
        self, positions: Positions, candidates: Positions, cosines: Floats, usual: "_Usual"
    ) -> Flags:
        """Return for each record which candidates are closer than its speaker's other statements.

        In a short chat, the assumed cosines may be too low: MiniLM's of all German texts are high.
        """
        counted = usual.in_sample[candidates] & (candidates != positions[:, None])
        number = usual.numbers[:, None] - counted
        mean = (usual.sums[:, None] - counted * cosines) / np.maximum(number, 1)
        return np.asarray(cosines >= mean + self._assumed_deviation * (number > 0))

    def _usual_cosines(self, positions: Positions, toward: Floats, sampled: "_Sample") -> "_Usual":
        """Return mean and deviation of the cosines between each record and others of a sample.

        A few statements do not show them, so some unrelated ones are assumed.
        """
        sample, in_sample, vectors = sampled
        others = sample != positions[:, None]
        cosines = toward @ vectors.T
        sums, numbers = (cosines * others).sum(axis=1), others.sum(axis=1)
        mean = (LATER_ASSUMED * self._assumed_mean + sums) / (LATER_ASSUMED + numbers)
        # Both kinds spread around their own means: another embedder's may be far from the assumed.
        means = (sums / np.maximum(numbers, 1))[:, None]
        squares = LATER_ASSUMED * self._assumed_deviation**2
        squares += (others * (cosines - means) ** 2).sum(axis=1)
        deviation = np.sqrt(squares / (LATER_ASSUMED + numbers))
        return _Usual(in_sample, sums, numbers, mean, deviation)

    def _is_newer(self, positions: Positions, partners: Positions, candidates: Positions) -> Flags:
        """Return for each record which candidates its speaker stated later.

        For a record of a machine, its speaker is the one it replied to.
        """
        column = self._view.column
        replies = (column["principal"][positions] < 0) | column["machine"][positions]
        replies &= partners < self._view.size
        said = np.where(replies, partners, positions)
        same = column["principal"][candidates] == column["principal"][said][:, None]
        same &= column["label"][candidates] == column["label"][said][:, None]
        same &= candidates != positions[:, None]
        time, row = column["newness"], column["row"]
        own_time, own_row = time[positions][:, None], row[positions][:, None]
        later = time[candidates] > own_time
        later |= (time[candidates] == own_time) & (row[candidates] > own_row)
        return np.asarray(same & later)

    def _relevance_of(self, candidates: Positions) -> Array:
        """Return their scores, relative to the best score of all."""
        return np.minimum(self._scores[candidates] / self._best_score, MAX_RELEVANCE)

    @cached_property
    def _best_score(self) -> float:
        return max(float((self._scores * self._relevant).max(initial=0.0)), EPSILON)

    def _find_candidates(self, first: int) -> Positions:
        """Return statements that match the question, or share a rare word with the first item."""
        view = self._view
        statements = view.derive(_statements, self._embedder)
        matching = np.flatnonzero(statements & self._relevant)
        matching = best_positions(self._scores, matching, LATER_CANDIDATES)
        matching = matching[self._relevance_of(matching) >= MIN_RELEVANCE]
        rare = min(FIRST_ITEM_NEEDS[1], self._rarest)
        sharing = [
            view.positions_with(stem)
            for stem in view.stems(first)
            if self._rarities[stem] >= rare and view.frequency(stem) <= MAX_SHARERS
        ]
        found: Positions = np.unique(np.concatenate([matching, *sharing]))
        return np.asarray(found[statements[found]])


class _Sample(NamedTuple):
    """Some records, whether each record of the view is one of them, and their unit vectors."""

    positions: Positions
    chosen: Flags
    vectors: Floats


class _Usual(NamedTuple):
    """How close each of several records is to the sample of other statements.

    `in_sample` tells for every record of the view whether it is one of them. `sums` and `numbers`
    are those of the cosines that were measured.
    """

    in_sample: Flags
    sums: Array
    numbers: Array
    mean: Array
    deviation: Array


def _closeness(cosines: Floats, usual: _Usual, usual_of_later: _Usual) -> Array:
    """Return by how many deviations two records are closer than each usually is; the lower one.

    What is close to everything, such as "Hm, let me think", is about nothing.
    """
    return np.minimum(
        (cosines - usual.mean[:, None]) / usual.deviation[:, None],
        (cosines - usual_of_later.mean) / usual_of_later.deviation,
    )


def _rarest(view: View) -> float:
    """Return how rare a word is that two records have: in a small memory, this is rare enough."""
    return math.log((view.size + 1) / 2.5)


class _Rarities(dict[str, float]):
    """How rare each informative stem is, computed when first asked for.

    0 for those of a date, and for those that are common in this memory.
    """

    def __init__(self, view: View) -> None:
        super().__init__()
        self._view = weakref.proxy(view)  # which keeps this from one question to the next
        self._needed = min(COMMON, _rarest(view))

    def __missing__(self, stem: str) -> float:
        rarity = 0.0
        if may_be_name(stem):
            rarity = math.log((self._view.size + 1) / (self._view.frequency(stem) + 0.5))
        self[stem] = rarity if rarity >= self._needed else 0.0
        return self[stem]


def _statements(view: View, embedder: str) -> Flags:
    """Return which records are people's statements with a vector, without extracted facts."""
    column = view.column
    stated = (column["principal"] >= 0) & (view.derive(source_strengths) >= USER_STRENGTH)
    stated &= ~column["machine"] & (column["echo"] != EXTRACTED)
    stated &= ~view.derive(notes_of_turns) & view.has_comparable_vector(embedder)
    return stated


def _answers(view: View, embedder: str) -> Flags:
    """Return which records are messages of assistants with a vector, without echoes."""
    answered = view.column["source"] == view.names.sources.number_of("answered")
    answered &= view.column["machine"] & (view.column["echo"] == 0)
    return np.asarray(answered & view.has_comparable_vector(embedder))


def _sample(view: View, embedder: str) -> "_Sample":
    """Return statements that show how close statements usually are."""
    statements = view.derive(_statements, embedder)
    return _sampled(view, statements, partial(_unit_vectors, view, embedder))


def _answers_sample(view: View, embedder: str) -> "_Sample":
    """Return messages of assistants that show how close these usually are."""
    return _sampled(view, view.derive(_answers, embedder), view.vectors_at)


def _sampled(view: View, among: Flags, vectors: Callable[[Positions], Floats]) -> "_Sample":
    every = np.flatnonzero(among)
    sample = every[:: max(len(every) // LATER_SAMPLE, 1)][:LATER_SAMPLE]
    in_sample = np.zeros(view.size, bool)
    in_sample[sample] = True
    return _Sample(sample, in_sample, vectors(sample))


def _unit_vectors(view: View, embedder: str, positions: Positions) -> Floats:
    """Return the vectors of records, each with its partner's, of length 1."""
    vectors = view.vectors_at(positions)
    partners = _partners(view, positions)
    has = partners < view.size
    has[has] &= view.has_comparable_vector(embedder)[partners[has]]
    vectors[has] += view.vectors_at(partners[has])
    vectors /= np.maximum(np.sqrt(np.vecdot(vectors, vectors)), EPSILON)[:, None]
    return vectors


def _followed(view: View) -> tuple[Positions, Positions]:
    """Return for each record the reply to it, and what its speaker said next, if it is short.

    Only people's short messages have replies: by another speaker, and no echoes. What a tool says
    in between is none. After what an assistant said comes what the person says to it. The view's
    size stands for none.
    """
    none = np.full(view.size, view.size, np.int64)
    if not view.neighbours:
        return none, none
    column = {
        name: np.append(view.column[name], 0)
        for name in ("machine", "label", "principal", "length", "source", "echo")
    }
    machine, label, principal = column["machine"], column["label"], column["principal"]
    after = [np.append(following, view.size) for _, following in view.neighbours]
    reply = after[0][:-1]
    is_tool = column["source"] == view.names.sources.number_of("observed")
    is_tool[-1] = False
    for _ in after:
        reply = np.where(is_tool[reply], after[0][reply], reply)
    by_other = (machine[reply] != machine[:-1]) | (label[reply] != label[:-1])
    by_other &= ~np.isin(column["echo"][reply], (ECHO, UNANSWERED)) & ~is_tool[reply]
    replies = np.where(
        by_other & (machine[:-1] == 0) & (column["length"][:-1] <= SHORT), reply, none
    )
    nexts = none
    for following in after[::-1]:  # the nearest comes last, and stays
        near = following[:-1]
        same = (principal[near] == principal[:-1]) & (label[near] == label[:-1])
        same = (same | (machine[:-1] != 0)) & (machine[near] == 0) & (near < view.size)
        nexts = np.where(same, near, nexts)
    return replies, np.where(column["length"][nexts] <= MAX_CORRECTION, nexts, none)


def _partners(view: View, positions: Positions) -> Positions:
    """Return the replies to people's messages, and what assistants' messages reply to.

    The view's size stands for none.
    """
    if not view.neighbours:
        return np.full(len(positions), view.size, np.int64)
    before, after = view.neighbours[0]
    is_machine = view.column["machine"]
    partners = np.where(is_machine[positions], before[positions], after[positions])
    known = partners < view.size
    known[known] &= is_machine[partners[known]] != is_machine[positions[known]]
    return np.where(known, partners, view.size)
