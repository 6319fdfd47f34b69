"""Find the passage of a long text that answers a question, to show it instead of the beginning."""

import re
from collections import Counter
from os.path import commonprefix
from typing import NamedTuple

from local2.language.words import RUN, composed, stems, terms

READ = 65_536
"""Maximum number of leading characters that are searched: as many as a note may have."""
LEAD = 0.25
"""Fraction of the room beside the words of the question that is before them, at most: what answers
follows them more often."""
_BREAK = re.compile(r"(?<=[.!?\u2026])\s+|(?<=[\u3002\uff01\uff1f])\s*|\n+")


class _Found(NamedTuple):
    begin: int
    end: int
    stem: str


def passage(text: str, question: str, limit: int) -> slice:
    """Which part of a text has most of the question's words, at most `limit` characters long.

    It begins with a sentence or a word. Without these words, it is the beginning.
    """
    if len(text) <= limit:
        return slice(0, len(text))
    found = _find(text[:READ], question)
    first, last = _closest(found, limit)
    if first is None or last is None or last.end <= limit:
        return slice(0, limit)
    earliest = max(first.begin - int(LEAD * (limit - (last.end - first.begin))), 0)
    begin = 0
    if earliest > 0:
        breaks = (found.end() for found in _BREAK.finditer(text, earliest, first.begin + 1))
        begin = next(
            (at for at in breaks if at <= first.begin),
            text.find(" ", earliest, first.begin) + 1 or first.begin,
        )
    begin = min(begin, len(text) - limit)
    return slice(begin, begin + limit)


def cut_to_passage(text: str, question: str, limit: int) -> str:
    """That part of a text, with "…" where something is left out."""
    part = passage(text, question, limit)
    before, after = "… " * (part.start > 0), " …" * (part.stop < len(text))
    return f"{before}{text[part].strip()}{after}" if before or after else text


def _find(text: str, question: str) -> list[_Found]:
    """Where the text has words of the question, in any inflected form, in their order."""
    wanted = terms(question)
    stem_of = dict(zip(wanted, stems(wanted), strict=True))
    # A stem is not always how a word begins ("happi"), so what begins alike is compared.
    runs = [re.escape(word) for word in wanted if RUN.match(word)]
    begins = {
        re.escape(begin)
        for word, stem in stem_of.items()
        if not RUN.match(word) and (begin := commonprefix((word, stem)))  # noqa: RUF071 - these are no paths
    }
    patterns = [*runs, *([rf"(?<![^\W_])(?:{'|'.join(begins)})[^\W_]*"] if begins else [])]
    if not patterns:
        return []
    sought = frozenset(stem_of.values())
    every = re.finditer("|".join(patterns), text, re.IGNORECASE)
    read = ((found, stems([composed(found[0]).lower()])[0]) for found in every)
    return [_Found(found.start(), found.end(), stem) for found, stem in read if stem in sought]


def _closest(found: list[_Found], limit: int) -> tuple[_Found | None, _Found | None]:
    """The first and the last of the words within `limit` characters that are most of the question.

    Rare ones count more, and among equal ones the first.
    """
    weights = {stem: 1 + 1 / count for stem, count in Counter(one.stem for one in found).items()}
    within = Counter[str]()
    best, first, last, begin = 0.0, None, None, 0
    for at, one in enumerate(found):
        within[one.stem] += 1
        while begin < at and (
            one.end - found[begin].begin > limit or within[found[begin].stem] > 1
        ):
            within[found[begin].stem] -= 1
            begin += 1
        has = sum(weights[stem] for stem, count in within.items() if count)
        if has > best:
            best, first, last = has, found[begin], one
    return first, last
