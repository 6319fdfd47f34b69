"""Find what to show beside an item: the reply that a question got, and later statements.

Which statement holds is not decided here, and no rank changes: whoever reads an item sees what its
speaker said about the same thing afterwards. What only asks is no statement. Beside what a person
asked stands the reply, since it is the reply that answers. Beside what an assistant said stands
what one said later about the same thing, and beside a tool's output a later one of this tool. Of a
turn, what its user said counts, or what was answered if its user only asked. A correction in the
next message stands there, however little it shares with what it corrects. All else in this module
knows no language.

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
from functools import lru_cache, partial
from itertools import chain

import numpy as np

from local2.language.corrections import MAX_CORRECTION, begins_correction
from local2.language.names import may_be_name
from local2.language.questions import asking
from local2.language.words import stems, words
from local2.ledger.columns import ECHO, EXTRACTED, UNANSWERED, Array, Flags, Positions, View
from local2.ledger.search import Choice, Matches
from local2.ledger.stored_vectors import Floats
from local2.memory.intake.episodes import split_episode
from local2.memory.recall.likeness import EPSILON
from local2.memory.recall.scores import best_positions, found_in_texts
from local2.memory.recall.tuning import (
    ASKING,
    COMMON,
    DATE_NUMBERS,
    LATER_ASSUMED,
    LATER_CANDIDATES,
    LATER_OVERLAP,
    LATER_RELEVANCE,
    LATER_SAMPLE,
    MAX_LATER,
    MAX_READ_LATER,
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
from local2.memory.recall.variants import USER_STRENGTH, compared_strengths, episodes
from local2.vectors.embedder import known


class LaterStatements:
    """The statements of people that match a question, compared with items when asked for.

    A later statement is newer, by the speaker of the item, by a person, with a vector of the
    question's embedder, and close (`MIN_CLOSENESS`, `MIN_LATER`, to other items than the first also
    `OTHER_ITEMS_NEED`). It is among the best `LATER_CANDIDATES` and relevant (`MIN_RELEVANCE`), or
    shares a word with the first item that at most `MAX_SHARERS` records have. What says the same as
    the item, or stands no longer, is left out in `results.py`.

    Several items are compared in one step: what each step costs does not depend on their number.
    Texts are read once, and only short ones.
    """

    def __init__(self, found: Matches, scores: Array, relevant: Flags) -> None:
        self._view = found.view
        self._embedder = found.embedder
        self._floor = found.floor
        self._compared = found.has_comparable_vector()
        self._scores = scores
        self._relevant = relevant
        self._rarities = found.view.derive(_Rarities)
        self._rarest = _rarest(found.view)

    def beside(self, rows: Sequence[int]) -> Choice[list[list[int]]]:
        """For each row at most three rows of what stands beside it, the best first."""
        if not rows:
            return []
        view, row, length = self._view, self._view.column["row"], self._view.column["length"]
        found = view.positions(rows)
        positions: list[int] = found.tolist()
        later = self._later_than(found)
        every = {*positions, *chain.from_iterable(later)}
        is_turn = view.derive(episodes)
        turns = [(at,) for at in every if is_turn[at]]
        short = [(at,) for at in every if length[at] <= SHORT and not is_turn[at]]
        asks = yield from found_in_texts(view, asking, short)
        asks |= yield from found_in_texts(view, _asking_in_turn, turns)
        replies, nexts = (array[found].tolist() for array in view.derive(_followed))
        replied = {
            at: [reply]
            for at, reply in zip(positions, replies, strict=True)
            if reply < view.size and asks.get((at,), 0.0) >= ASKING
        }
        pairs = [
            (next_, at) for at, next_ in zip(positions, nexts, strict=True) if next_ < view.size
        ]
        corrects = yield from found_in_texts(view, begins_correction, pairs)
        corrections = {at: [next_] for next_, at in pairs if corrects[next_, at]}
        first_ones = [
            at for at in positions[:MAX_RESTATED] if not is_turn[at] or asks[at,] >= ASKING
        ]
        answered = chain.from_iterable(replied.get(at, ()) for at in first_ones)
        restated = self._restated({*first_ones, *answered})
        beside = []
        for at, statements in zip(positions, later, strict=True):
            first = [*replied.get(at, ()), *corrections.get(at, ())]
            first += restated.get(first[0] if first else at, ())
            rest = [one for one in statements if one not in first and asks.get((one,), 0.0) < 1]
            beside.append(row[[*first, *rest][:MAX_LATER]].tolist())
        return beside

    def _later_than(self, positions: Positions) -> list[list[int]]:
        """For each record the positions of later statements about the same, best first."""
        view, column = self._view, self._view.column
        found: list[list[tuple[float, int]]] = [[] for _ in positions]

        # Statements that match the question, or share a rare word with the first item.
        statements = view.derive(_statements, self._embedder)
        best_score = max(float((self._scores * self._relevant).max(initial=0.0)), EPSILON)
        matching = np.flatnonzero(statements & self._relevant)
        matching = best_positions(self._scores, matching, LATER_CANDIDATES)
        matching = matching[self._scores[matching] / best_score >= MIN_RELEVANCE]
        sharing = [
            view.positions_with(stem)
            for stem in view.stems(int(positions[0]))
            # In this order: frequencies are known, and most words are in too many records.
            if view.frequency(stem) <= MAX_SHARERS and self._rarities[stem]
        ]
        candidates: Positions = np.unique(np.concatenate([matching, *sharing]))
        candidates = candidates[statements[candidates]]

        # Those that the speaker of the item stated later. What a machine said is compared with the
        # statements of whom it replied to.
        partners = view.derive(_partners)[positions]
        by_machine = (column["principal"][positions] < 0) | column["machine"][positions]
        speaking = np.where(by_machine & (partners < view.size), partners, positions)
        may_be_later = column["principal"][candidates] == column["principal"][speaking][:, None]
        may_be_later &= column["label"][candidates] == column["label"][speaking][:, None]
        may_be_later &= candidates != positions[:, None]
        time, row = column["newness"], column["row"]
        own_time, own_row = time[positions][:, None], row[positions][:, None]
        is_newer = time[candidates] > own_time
        is_newer |= (time[candidates] == own_time) & (row[candidates] > own_row)
        may_be_later &= is_newer & self._compared[positions, None]
        if not may_be_later.any():
            return [[] for _ in positions]

        # Those that are close.
        from_items = _unit_vectors(view, self._embedder, positions)
        from_candidates = _unit_vectors(view, self._embedder, candidates)
        cosines = from_items @ from_candidates.T
        usual = view.derive(_usual_of_statements, self._embedder, self._floor)
        usual.measure(positions, from_items)
        usual.measure(candidates, from_candidates)
        closeness = usual.closeness(cosines, positions, candidates)
        may_be_later &= closeness >= MIN_CLOSENESS
        may_be_later &= usual.stands_out(cosines, positions, candidates)

        # Those that are close enough, given the words that they share with the item.
        items, near = np.nonzero(may_be_later)
        said = {
            item: {*view.stems(int(positions[item]))}
            | ({*view.stems(int(partners[item]))} if partners[item] < view.size else set())
            for item in {*items.tolist()}
        }
        labels = view.names.labels.values
        said_later = {
            number: (view.stems(int(at)), _stems_of_name(labels[column["label"][at]]))
            for number, at in ((number, candidates[number]) for number in {*near.tolist()})
        }
        relevance = self._scores[candidates[near]] / best_score
        close, rare = OTHER_ITEMS_NEED[0], min(OTHER_ITEMS_NEED[1], self._rarest)
        for item, number, how_close, how_relevant, length, later in zip(
            items.tolist(),
            near.tolist(),
            closeness[items, near].tolist(),
            relevance.tolist(),
            column["length"][candidates[near]].tolist(),
            candidates[near].tolist(),
            strict=True,
        ):
            stems_later, name = said_later[number]
            common = said[item].intersection(stems_later) - name
            rarities = [self._rarities[stem] for stem in common]
            rarest = max(rarities, default=0.0)
            if item > 0 and how_close < close and rarest < rare:
                continue
            says_nothing = length <= NOTHING_SAID and (
                sum(map(str.isdigit, stems_later)) <= DATE_NUMBERS
            )
            if not rarest and says_nothing:  # mostly thanks and goodbyes
                continue
            # The order of a set is not always the same, nor then the sum of floats.
            overlap = math.fsum(rarities)
            total = how_close + LATER_RELEVANCE * how_relevant + LATER_OVERLAP * overlap
            if total >= MIN_LATER:
                found[item].append((total, later))
        return [
            [later for _, later in sorted(statements, reverse=True)[:MAX_READ_LATER]]
            for statements in found
        ]

    def _restated(self, positions: Iterable[int]) -> dict[int, list[int]]:
        """For what assistants and tools said, what was said later about the same thing.

        By any assistant, in any turn, or by this tool. They are compared without what they reply
        to, must be close, and share a rare word.
        """
        view, column = self._view, self._view.column
        time = column["newness"]
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
        voice = np.where(_by_tool(view), column["label"], -1)  # a tool's, or any assistant's
        cosines[voice[candidates] != voice[said][:, None]] = -1.0
        nearest = cosines.argmax(axis=1)
        each = np.arange(len(said))
        usual = view.derive(_usual_of_answers, self._embedder, self._floor)
        usual.measure(said, of_said)
        usual.measure(candidates, of_later)
        closeness = usual.closeness(cosines[:, nearest], said, candidates[nearest])[each, each]
        close, rare = RESTATED_NEEDS
        found = {}
        for number in np.flatnonzero(closeness >= close).tolist():
            at, later = int(said[number]), int(candidates[nearest[number]])
            common = {*view.stems(at)} & {*view.stems(later)}
            rarest = max((self._rarities[stem] for stem in common), default=0.0)
            if rarest >= min(rare, self._rarest):
                found[at] = [later]
        return found


class _Usual:
    """How close records usually are to others: mean and deviation of the cosines with a sample.

    They are measured once for each record of a view. A few cosines do not show them, so some
    unrelated records are assumed.
    """

    def __init__(
        self,
        view: View,
        among: Flags,
        vectors_at: Callable[[Positions], Floats],
        embedder: str,
        floor: float,
    ) -> None:
        every = np.flatnonzero(among)
        self._sample = every[:: max(len(every) // LATER_SAMPLE, 1)][:LATER_SAMPLE]
        self._vectors = vectors_at(self._sample)
        self._beside = [near for pair in view.neighbours[:1] for near in pair]
        self.in_sample = np.zeros(view.size, bool)
        self.in_sample[self._sample] = True
        unrelated = known(embedder)
        self.assumed_mean = floor + (1 - floor) * unrelated.mean
        self.assumed_deviation = (1 - floor) * unrelated.deviation
        self._measured = np.zeros(view.size, bool)
        self._sums = np.zeros(view.size, np.float32)
        self.mean, self.deviation = np.zeros((2, view.size))

    def measure(self, positions: Positions, vectors: Floats) -> None:
        """Measure these records, which have these vectors."""
        new = ~self._measured[positions]
        positions = positions[new]
        others = self._sample != positions[:, None]
        cosines = vectors[new] @ self._vectors.T
        sums, numbers = (cosines * others).sum(axis=1), others.sum(axis=1)
        # Both kinds spread around their own means: another embedder's may be far from the assumed.
        means = (sums / np.maximum(numbers, 1))[:, None]
        squares = LATER_ASSUMED * self.assumed_deviation**2
        squares += (others * (cosines - means) ** 2).sum(axis=1)
        self._sums[positions] = (cosines * self._apart(positions, self._sample)).sum(axis=1)
        self.mean[positions] = (LATER_ASSUMED * self.assumed_mean + sums) / (
            LATER_ASSUMED + numbers
        )
        self.deviation[positions] = np.sqrt(squares / (LATER_ASSUMED + numbers))
        self._measured[positions] = True

    def closeness(self, cosines: Floats, positions: Positions, later: Positions) -> Array:
        """By how many deviations two records are closer than each usually is; the lower one.

        What is close to everything, such as "Hm, let me think", is about nothing.
        """
        mean, deviation = self.mean, self.deviation
        return np.minimum(
            (cosines - mean[positions][:, None]) / deviation[positions][:, None],
            (cosines - mean[later]) / deviation[later],
        )

    def stands_out(self, cosines: Floats, positions: Positions, later: Positions) -> Flags:
        """Which of the later ones are closer than the others of the sample are on average.

        In a short chat, the assumed cosines may be too low: MiniLM's of all German texts are high.
        """
        counted = self.in_sample[later] & self._apart(positions, later)
        number = self._apart(positions, self._sample).sum(axis=1)[:, None] - counted
        sums = self._sums[positions][:, None] - counted * cosines
        mean = sums / np.maximum(number, 1)
        return np.asarray(cosines >= mean + self.assumed_deviation * (number > 0))

    def _apart(self, positions: Positions, others: Positions) -> Flags:
        """Which of the others are neither these records nor the messages before and after them.

        The vector of a message has the one before in it: in a short chat, nothing else is closer.
        """
        apart = others != positions[:, None]
        for beside in self._beside:
            apart &= others != beside[positions][:, None]
        return np.asarray(apart)


def _asking_in_turn(text: str) -> float:
    return asking(split_episode(text)[0])


def _rarest(view: View) -> float:
    """How rare a word is that two records have: in a small memory, this is rare enough."""
    return math.log((view.size + 1) / 2.5)


class _Rarities(dict[str, float]):
    """How rare each informative stem is, computed when first asked for.

    0 for those of a date, and for those that are common in this memory. No word becomes common by
    what says it again: questions to the memory and their answers, extracted facts, and replies.
    """

    def __init__(self, view: View) -> None:
        super().__init__()
        self._view = weakref.proxy(view)  # which keeps this from one question to the next
        self._is_echo = np.isin(view.column["echo"], (ECHO, UNANSWERED, EXTRACTED))
        self._replied_to = np.where(view.column["machine"], view.derive(_partners), view.size)
        self._needed = min(COMMON, _rarest(view))

    def __missing__(self, stem: str) -> float:
        rarity = 0.0
        if may_be_name(stem):
            having = self._view.positions_with(stem)
            has = np.zeros(self._view.size + 1, bool)  # the last one stands for no record
            has[having] = True
            repeats = self._is_echo[having] | has[self._replied_to[having]]
            rarity = math.log((self._view.size + 1) / (len(having) - repeats.sum() + 0.5))
        self[stem] = rarity if rarity >= self._needed else 0.0
        return self[stem]


def _statements(view: View, embedder: str) -> Flags:
    """Which records are people's statements with a vector, without extracted facts."""
    column = view.column
    stated = (column["principal"] >= 0) & (view.derive(compared_strengths) >= USER_STRENGTH)
    stated &= ~column["machine"] & (column["echo"] != EXTRACTED)
    return stated & view.has_comparable_vector(embedder)


def _answers(view: View, embedder: str) -> Flags:
    """Which records are turns, or messages of assistants and tools, with a vector; no echoes."""
    answered = view.column["source"] == view.names.sources.number_of("answered")
    answered = view.column["spoken"] & (answered | _by_tool(view)) & view.column["machine"]
    answered |= view.derive(episodes)
    answered &= view.column["echo"] == 0
    return np.asarray(answered & view.has_comparable_vector(embedder))


def _by_tool(view: View) -> Flags:
    return np.asarray(view.column["source"] == view.names.sources.number_of("observed"))


def _usual_of_statements(view: View, embedder: str, floor: float) -> _Usual:
    statements = view.derive(_statements, embedder)
    vectors_at = partial(_unit_vectors, view, embedder)
    return _Usual(view, statements, vectors_at, embedder, floor)


def _usual_of_answers(view: View, embedder: str, floor: float) -> _Usual:
    return _Usual(view, view.derive(_answers, embedder), view.vectors_at, embedder, floor)


def _unit_vectors(view: View, embedder: str, positions: Positions) -> Floats:
    """The vectors of records, each with its partner's, of length 1."""
    vectors = view.vectors_at(positions)
    partners = view.derive(_partners)[positions]
    has = partners < view.size
    has[has] &= view.has_comparable_vector(embedder)[partners[has]]
    vectors[has] += view.vectors_at(partners[has])
    vectors /= np.maximum(np.sqrt(np.vecdot(vectors, vectors)), EPSILON)[:, None]
    return vectors


def _followed(view: View) -> tuple[Positions, Positions]:
    """For each record the reply to it, and what its speaker said next, if it is short.

    Only people's short messages have replies: by another speaker, and no echoes. What a tool says
    in between is none. After what an assistant said comes what the person says to it. The view's
    size stands for none.
    """
    none = np.full(view.size, view.size, np.int64)
    if not view.neighbours:
        return none, none
    column = {
        name: np.append(view.column[name], 0)
        for name in ("machine", "label", "principal", "length", "echo")
    }
    machine, label, principal = column["machine"], column["label"], column["principal"]
    after = [np.append(following, view.size) for _, following in view.neighbours]
    reply = after[0][:-1]
    is_tool = np.append(_by_tool(view), False)
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


def _partners(view: View) -> Positions:
    """The replies to people's messages, and what assistants' messages reply to.

    The view's size stands for none.
    """
    none = np.full(view.size, view.size, np.int64)
    if not view.neighbours:
        return none
    before, after = view.neighbours[0]
    is_machine = view.column["machine"]
    partners = np.where(is_machine, before, after)
    by_other = np.append(is_machine, False)[partners] != is_machine
    return np.where(by_other & (partners < view.size), partners, none)


@lru_cache(maxsize=1_000)
def _stems_of_name(label: str | None) -> frozenset[str]:
    """The stems of a speaker's name, which are in the stems of what they say."""
    return frozenset(stems(words(label or "")))
