"""What a new fact is to known ones: the same, a later value, an addition, or a contradiction.

Nothing is retired by what is older, weaker, or another user's: whatever a document or a tool says
of earlier facts has no force. Where a sentence alone cannot tell, both stand.
"""

from collections.abc import Sequence
from typing import Literal

import msgspec

from local.ledger.records import STRENGTH, NewRecord, class_of, folded, principal_of
from local.text.keywords import stems, words

Verdict = Literal["unrelated", "duplicate", "enriches", "supersedes", "outdated", "contradicts"]
"""Of the new fact to a known one; `outdated`: the known one was stated later."""

ACCUMULATING = frozenset({"event", "task", "interaction", "user_request", "summary"})
"""Types of which two never exclude each other."""
DENIALS = frozenset({"not", "no", "never", "don", "doesn", "didn", "isn", "aren", "won", "without"})
"""Words, without clitics, that turn a statement into its opposite."""


class Comparison(msgspec.Struct, frozen=True, kw_only=True):
    known: NewRecord
    verdict: Verdict


def compare(new: NewRecord, known: Sequence[NewRecord]) -> list[Comparison]:
    """The verdicts that are not `unrelated`; a duplicate is the only one."""
    compared = [Comparison(known=old, verdict=verdict_on(new, old)) for old in known]
    related = [one for one in compared if one.verdict != "unrelated"]
    same = [one for one in related if one.verdict == "duplicate"]
    return same[:1] or related


def verdict_on(new: NewRecord, old: NewRecord) -> Verdict:
    """What the new fact is to an old one of the same scope and owner."""
    if new.memory_type == "task" and new.session_id != old.session_id:
        return "unrelated"
    if _says(old, new):
        return "duplicate"
    if _same_key(new, old):
        return _under_one_key(new, old)
    if _says(new, old) and may_replace(new, old) and new.topic is None is old.topic:
        return "enriches" if new.event_time >= old.event_time else "unrelated"
    return "unrelated"


def _under_one_key(new: NewRecord, old: NewRecord) -> Verdict:
    if class_of(old) == "asserted" and _says(new, old):
        return "duplicate"  # such as "Elixir", of a sentence that says it
    if not may_replace(new, old):
        return "contradicts"
    return "supersedes" if new.event_time >= old.event_time else "outdated"


def may_replace(new: NewRecord, old: NewRecord) -> bool:
    """Whether it is the same user's, and at least as strong."""
    same = principal_of(new) is not None and principal_of(new) == principal_of(old)
    return same and STRENGTH[class_of(new)] >= STRENGTH[class_of(old)]


def _same_key(new: NewRecord, old: NewRecord) -> bool:
    return (
        new.topic is not None and old.topic is not None and folded(new.topic) == folded(old.topic)
    )


def _says(one: NewRecord, other: NewRecord) -> bool:
    """Whether everything that the other says is said by the one as well."""
    if ACCUMULATING & {one.memory_type, other.memory_type}:
        return one.content.casefold().split() == other.content.casefold().split()
    said, asked = words(one.content), words(other.content)
    if DENIALS.isdisjoint(said) != DENIALS.isdisjoint(asked):
        return False
    return f" {' '.join(stems(asked))} " in f" {' '.join(stems(said))} "
