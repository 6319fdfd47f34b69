"""The scores of a ranking: sums of shares, the best of them, and the texts that its rules read."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import chain
from typing import TypeVar

import numpy as np

from local2.ledger.columns import Array, Positions, View
from local2.ledger.search import Choice, DetailRequest

T = TypeVar("T")


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
