"""Rank the replies that say nothing below everything else.

"Noted." after a statement matches by the words of its neighbours and says nothing. A reply to a
question is no nod, however short it is.
"""

import numpy as np

from local2.language.questions import asks
from local2.language.sentences import sentences
from local2.language.words import informative_stems
from local2.ledger.columns import View
from local2.ledger.entries import Array, Flags, Positions
from local2.ledger.search import Choice
from local2.memory.recall.precedence import Total, best_positions, texts_at
from local2.memory.recall.tuning import (
    MAX_NODS,
    NOD,
    NOD_CHARACTERS,
    NOD_LENGTH,
    NOD_WORDS,
)


def find_nods(view: View, total: Total, relevant: Flags) -> Choice[Array]:
    """Return the share of the short replies of assistants that say nothing of their own."""
    share = np.zeros(view.size)
    short_replies = view.derive(_short_replies)
    found = short_replies[relevant[short_replies]]
    if not len(found):
        return share
    before = view.neighbours[0][0]
    replies: list[int] = best_positions(total.scores, found, MAX_NODS).tolist()
    row = view.column["row"]
    known: dict[tuple[int, int], bool] = view.found_in_texts("nods")
    statements = {reply: int(before[reply]) for reply in replies}
    keys = {reply: (int(row[reply]), int(row[said])) for reply, said in statements.items()}
    unknown = {reply: said for reply, said in statements.items() if keys[reply] not in known}
    texts = yield from texts_at(view, {*unknown, *unknown.values()})
    for reply, statement in unknown.items():
        known[keys[reply]] = _is_nod(texts[reply], texts[statement])
    share[[reply for reply in replies if known[keys[reply]]]] = NOD
    return share


def _is_nod(reply: str, statement: str) -> bool:
    """Return whether a reply to a statement says nothing of its own; nothing was asked."""
    if any(map(asks, sentences(f"{statement}\n{reply}"))):
        return False
    return len(informative_stems(reply) - informative_stems(statement)) <= NOD_WORDS


def _short_replies(view: View) -> Positions:
    """Return the replies of assistants to people that are short, or as short as the statement."""
    if not view.neighbours:
        return np.zeros(0, np.int64)
    column, before = view.column, view.neighbours[0][0]
    answered = column["spoken"] & (column["source"] == view.names.sources.number_of("answered"))
    found = np.flatnonzero(answered & (before < view.size))
    length, statement_length = column["length"][found], column["length"][before[found]]
    is_short = length <= np.maximum(NOD_CHARACTERS, NOD_LENGTH * statement_length)
    return np.asarray(found[is_short & ~column["machine"][before[found]]])
