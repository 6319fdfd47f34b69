"""Choosing from what a search found, as a pure function that asks for what else it needs.

It is a generator: it yields what it wants to know, is sent that, and returns what it chose. The
ledger answers within the read in which it found the candidates.
"""

from collections.abc import Awaitable, Callable, Generator, Mapping, Sequence
from typing import TypeVar

import msgspec

from local.ledger.found import Echo, Found, Meaning, Worded
from local.ledger.records import Record

D = TypeVar("D")
T = TypeVar("T")


class Wanted(msgspec.Struct, frozen=True, kw_only=True):
    """Rows of which a choice needs the related ones, the sources, or the records."""

    related: Sequence[int] = ()
    sources: Sequence[int] = ()
    records: Sequence[int] = ()


class Given(msgspec.Struct, frozen=True, kw_only=True):
    """By row: what each is related to, what the echoes among them repeat, and the records.

    Records that were superseded meanwhile are not among them.
    """

    related: Mapping[int, Sequence[int]] = {}
    sources: Mapping[int, Echo] = {}
    records: Mapping[int, Record] = {}


Look = Callable[[int], Awaitable[Meaning]]
"""Asks for the question's vector, and for so many of the nearest."""
Drafts = Callable[[Worded], D]
"""Makes what can be made without the question's vector."""
Choice = Generator[Wanted, Given, T]
Chooses = Callable[[Found, D], Choice[T]]


def made(choice: Choice[T], given: Callable[[Wanted], Given]) -> T:
    """What was chosen, where `given` answers."""
    try:
        wanted = next(choice)
        while True:
            wanted = choice.send(given(wanted))
    except StopIteration as end:
        chosen: T = end.value
        return chosen
