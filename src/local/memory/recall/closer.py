"""A closer look at the best hits: which of them are outdated, and what they lead to."""

import numpy as np

from local.ledger.columns import View
from local.ledger.entries import Array, Flags
from local.ledger.search import Choice
from local.memory.recall.hops import LEADS, STEPS, Hops
from local.memory.recall.variants import Variants

COMPARED = 20
"""Of the best so many are compared with one another, for what has changed."""


def look_closer(view: View, relevant: Flags, variants: Variants, hops: Hops) -> Choice[None]:
    """Compare the best, and what those lead to that are not outdated, with one another."""
    best = _best(view, hops.scores, relevant)
    yield from variants.look_at(best)
    for _ in range(STEPS):
        leads = [one for one in best if one not in variants.stands][:LEADS]
        if not hops.step(leads):
            return
        best = _best(view, hops.scores, relevant)
        yield from variants.look_at(best)


def _best(view: View, scores: Array, relevant: Flags) -> list[int]:
    """The best relevant ones that may hold another value; notes of turns say what messages say."""
    column = view.column
    notes = ~column["spoken"] & (column["scope"] == view.names.scopes.of("session"))
    of_interest = np.flatnonzero(relevant & ~notes)
    if len(of_interest) > COMPARED:
        best = np.argpartition(-scores[of_interest], COMPARED)[:COMPARED]
        of_interest = of_interest[best]
    best_first: list[int] = of_interest[np.argsort(-scores[of_interest], kind="stable")].tolist()
    return best_first
