"""Notes that read like English: the same seed gives the same notes on every machine."""

import random
from collections.abc import Sequence

WHO = "Ada Grace Linus Margaret Ken Barbara Dennis Frances Alan Radia we they".split()
DID = (
    "moved replaced measured dropped chose reviewed postponed documented tested rewrote "
    "discussed approved deployed forgot migrated planned"
).split()
HOW = "new old slow shared nightly broken tiny central public secret green remote".split()
WHAT = (
    "database queue compiler dashboard invoice parser garden holiday bridge server recipe "
    "contract index library meeting telescope engine budget kitchen railway piano notebook "
    "archive protocol festival workshop"
).split()
WHERE = "Berlin Oslo staging production Lisbon Kyoto the office the cellar Prague Leeds".split()
WHEN = "Monday Tuesday Friday spring autumn March July yesterday October midnight".split()
WHY = (
    "because tests failed | since nobody used it | to save money | so that recall stays fast | "
    "after the outage | before the audit | as the customer asked"
).split(" | ")


def notes(count: int, *, seed: int, words: tuple[int, int] = (10, 120)) -> list[str]:
    """Make notes of a length between the two numbers of words, each of them different."""
    chance = random.Random(seed)  # noqa: S311 - repeatable is what it has to be
    return [f"{_note(chance, chance.randint(*words))} (note {seed}-{n})" for n in range(count)]


def _note(chance: random.Random, length: int) -> str:
    words: list[str] = []
    while len(words) < length:
        words += _sentence(chance)
    return " ".join(words[:length]) + "."


def _sentence(chance: random.Random) -> Sequence[str]:
    return (
        f"{chance.choice(WHO)} {chance.choice(DID)} the {chance.choice(HOW)} {chance.choice(WHAT)} "
        f"and the {chance.choice(HOW)} {chance.choice(WHAT)} in {chance.choice(WHERE)} on "
        f"{chance.choice(WHEN)} {chance.choice(WHY)}, with {chance.randint(2, 99)} changes;"
    ).split()
