"""Putting what was found into order, as much of it as somebody asks for."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from local.ledger.entries import Array, Positions

NEW_SESSION, SURE, SPREAD = 0.2, 10, 20
"""From the 11th place to the 20th, what a session gains that has no place before."""
AHEAD = 100
"""So many of the best are put into order at once; the others when somebody asks for them."""


def in_order(scores: Array, relevant: Positions, column: Mapping[str, Any]) -> Iterator[list[int]]:
    """The relevant positions in parts, best first; of the same score the older record."""
    while len(relevant):
        chosen = relevant
        if len(relevant) > AHEAD:
            least = np.partition(scores[relevant], -AHEAD)[-AHEAD]
            chosen = relevant[scores[relevant] >= least]
        best = chosen[np.lexsort((column["row"][chosen], -scores[chosen]))].tolist()
        yield _spread(
            best,
            dict(zip(best, scores[best].tolist(), strict=True)),
            dict(zip(best, column["session"][best].tolist(), strict=True)),
        )
        relevant = np.setdiff1d(relevant, chosen)


def _spread(
    order: Sequence[int], scores: Mapping[int, float], sessions: Mapping[int, int]
) -> list[int]:
    """Behind the surest places, prefer sessions that have none yet: questions may need several."""
    chosen, rest = list(order[:SURE]), list(order[SURE:])
    seen = {sessions[i] for i in chosen}
    while rest and len(chosen) < SPREAD:
        ahead = rest[: SPREAD + SURE]
        best = max(ahead, key=lambda i: scores[i] + NEW_SESSION * (sessions[i] not in seen))
        rest.remove(best)
        chosen.append(best)
        seen.add(sessions[best])
    return chosen + rest
