"""Read corrections ("No, I meant Wednesday.") of what the same speaker said just before.

A correction gives another value of the same kind: a day for a day, an amount for an amount, a name
for a name. It is clear only if the statement has one value of that kind, or if the correction names
the value that was wrong ("not Lena").

A later statement that repeats an earlier one with another amount and a "now" replaces it, too:
"I get up at seven now."
"""

import re

from local2.language.attributes import Stated, Table
from local2.language.questions import is_question
from local2.language.tables import table_of

MAX_CORRECTION = 80
"""Maximum characters of a correction. A longer sentence is a statement of its own."""
MAX_LONGER = 2
"""By how many words a right value may be longer than the wrong one; a longer text is a clause."""
NAME = "<name>"
"""The kind of value that a capital tells."""


def corrected(before: Stated, sentence: str, *, asked: bool) -> Stated | None:
    """The statement with the right value, if the sentence corrects it.

    `asked`: a question was asked since, which a bare "No, Berlin." answers.
    """
    table = before.table
    if len(sentence) > MAX_CORRECTION or is_question(sentence):
        return None
    if table_of(sentence, table) is not table:
        return None
    for text in table.language.corrections:
        found = table.pattern(text).fullmatch(sentence.rstrip(".! "))
        if found is None:
            continue
        groups = found.groupdict()
        if "bare" in groups:
            kinds = map(table.pattern, table.language.kinds)
            if asked or not any(kind.fullmatch(groups["v"]) for kind in kinds):
                continue
        clause = _replaced(table, before.clause, groups["v"], groups.get("wrong"))
        stated = clause and table.stated(clause)
        if stated and clause != before.clause:
            return stated
    return None


def says_now(text: str) -> bool:
    """Whether a text says that something is so now."""
    table = table_of(text)
    return table.pattern(table.language.now).search(text) is not None


def has_new_amount(later: str, earlier: str) -> bool:
    """Whether a text says what an earlier one says, but for an amount that is so now."""
    if not says_now(later):
        return False
    table = table_of(later)
    now = table.pattern(table.language.now)
    words, others = (
        now.sub("", text.rstrip(".! ")).casefold().split() for text in (later, earlier)
    )
    if len(words) != len(others):
        return False
    changed = [pair for pair in zip(words, others, strict=True) if pair[0] != pair[1]]
    number = table.pattern(table.language.number)
    return len(changed) == 1 and all(
        number.fullmatch(word.strip("$€£.,!")) is not None for word in changed[0]
    )


def begins_correction(text: str, before: str) -> bool:
    """Whether a short text begins as a correction does, and gives another day, time or number.

    `before`: what the same speaker said just before, which gives one of the same kind.
    """
    if len(text) > MAX_CORRECTION or is_question(text) or is_question(before):
        return False
    table = table_of(text, table_of(before))  # a short one has no little words
    begins = table.pattern(f"(<sorry>|{table.language.takes_back}\\b)+").match(f"{text} ")
    kinds = (table.pattern(kind) for kind in table.language.kinds if kind != NAME)  # "No, Jon!"
    return begins is not None and any(
        kind.search(before) and kind.search(text, begins.end()) for kind in kinds
    )


def takes_back(sentence: str, table: Table) -> bool:
    """Whether a sentence only says that what was said before it is not so."""
    return table.pattern(table.language.takes_back).fullmatch(sentence.rstrip(".! ")) is not None


def _replaced(table: Table, clause: str, right: str, wrong: str | None) -> str | None:
    """The clause with the right value; None if it is not clear what it replaces."""
    if wrong is not None:
        # "It's on Tuesday, not Monday": only the days are exchanged.
        exchanged = _same_kind(table, right, wrong)
        is_longer = right.count(" ") > wrong.count(" ") + MAX_LONGER
        if exchanged is None and (is_longer or table.stated(right)):
            return None
        one, other = exchanged or (right, wrong)
        parts = re.split(rf"\b{re.escape(other)}\b", clause, flags=re.IGNORECASE)
        return one.join(parts) if len(parts) == 2 else None  # noqa: PLR2004 - it stands there once
    for kind in table.language.kinds:
        pattern = table.pattern(kind)
        values = [found[0] for found in pattern.finditer(right)]
        # The first word has a capital anyway.
        wrong_values = list(pattern.finditer(clause, clause.find(" ") + 1))
        if len(values) == 1 and len(wrong_values) == 1:
            begin, end = wrong_values[0].span()
            value = values[0].lower() if wrong_values[0][0].islower() else values[0]
            return f"{clause[:begin]}{value}{clause[end:]}"
        if values:
            return None
    return None


def _same_kind(table: Table, right: str, wrong: str) -> tuple[str, str] | None:
    """The values of the most special kind of which both texts have one; names may be anything's."""
    for kind in table.language.kinds:
        if kind == NAME:
            break
        pattern = table.pattern(kind)
        values = [[found[0] for found in pattern.finditer(text)] for text in (right, wrong)]
        if all(len(found) == 1 for found in values):
            return values[0][0], values[1][0]
    return None
