"""Notes that read like English: the same seed gives the same notes on every machine."""

import random

_LISTS = """
WHO: Ada, Grace, Linus, Margaret, Ken, Barbara, Dennis, Frances, Alan, Radia, we, they
DID: moved, replaced, measured, dropped, chose, reviewed, postponed, documented, tested, rewrote
HOW: new, old, slow, shared, nightly, broken, tiny, central, public, secret, green, remote
WHAT: database, queue, compiler, dashboard, invoice, parser, garden, holiday, bridge, server
WHAT_ELSE: recipe, contract, library, meeting, telescope, engine, budget, railway, piano, archive
WHERE: Berlin, Oslo, staging, production, Lisbon, Kyoto, the office, the cellar, Prague, Leeds
WHEN: Monday, Tuesday, Friday, spring, autumn, March, July, yesterday, October, midnight
WHY: because tests failed, since nobody used it, to save money, after the outage, before the audit
"""


def choices_of(lists: str) -> dict[str, list[str]]:
    """Parse lines such as "WHO: Ada, Grace" into lists, by name."""
    named = (line.split(": ") for line in lists.strip().splitlines())
    return {name: choices.split(", ") for name, choices in named}


WORDS = choices_of(_LISTS)


def notes(count: int, *, seed: int, words: tuple[int, int] = (10, 120)) -> list[str]:
    """Make different notes with a number of words between the two bounds."""
    chance = random.Random(seed)  # noqa: S311 - repeatable is what it has to be
    return [f"{_note(chance, chance.randint(*words))} (note {seed}-{n})" for n in range(count)]


def _note(chance: random.Random, length: int) -> str:
    words: list[str] = []
    while len(words) < length:
        words += _sentence(chance)
    return " ".join(words[:length]) + "."


def _sentence(chance: random.Random) -> list[str]:
    pick = {name: chance.choice(choices) for name, choices in WORDS.items()}
    sentence = (
        "{WHO} {DID} the {HOW} {WHAT} and the {WHAT_ELSE} in {WHERE} on {WHEN} {WHY}, "
        "with {count} changes;"
    )
    return sentence.format(**pick, count=chance.randint(2, 99)).split()
