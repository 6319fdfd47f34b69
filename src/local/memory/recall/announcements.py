"""Recognise messages that announce a change of what an earlier message states.

"We shifted the backup to 4 am" has not the form of "The backup runs at 2 am", so `statements.py`
cannot compare them. But it has a word of change, names what the question asks about, and has
another value of the same kind. "I left Acme for Northwind" names the former value, which has ended.

Suppositions, memories, quotations and the affairs of others announce nothing. Only English is
recognised. See decision 0089.
"""

import re
from collections.abc import Iterable, Iterator, Sequence
from collections.abc import Set as AbstractSet
from itertools import chain, product
from typing import NamedTuple

from local.text.features import MONTHS, asks
from local.text.words import is_informative, stems, words

_BREAK = re.compile(r"(?<=[.!?;])\s+|\n+")
_CHANGE = re.compile(
    r"\b(?:moved|changed|switched|swapped|replaced|renamed|raised|lowered|increased|decreased"
    r"|reduced|cut|bumped|upgraded|downgraded|migrated|shifted|pushed|postponed|rescheduled|delayed"
    r"|extended|shortened|relocated|transferred|promoted|demoted|updated|adjusted|rose|fell|dropped"
    r"|(?:went|gone|go|goes) (?:up|down)|(?:takes?|took|handed)\b.*? over"
    r"|(?:up|down|back) (?:to|at|on)"
    r"|instead|these days|now(?=[,.;!]|$)|as of|from (?:now|(?:this|next) \w+)(?: on)?"
    r"|starting (?=this|next|\w+day\b))\b",
    re.IGNORECASE,
)
"""Words of a change."""
_ENDED = r"(?:(?:my|our|the|using|with|at) )*(?P<ended>[^,.;!?]+?)"
_UNTIL = r"(?= (?:for|with|and|to|any|in|on|at|because|since|so|but|after|last|this)\b|[,.;!?]|$)"
_ENDINGS = tuple(
    re.compile(pattern, re.IGNORECASE)
    for pattern in (
        r"\b(?:quit|stopped|dropped|g[ai]ven? up|sold|replaced|scrap(?:ped)?|cancell?ed|ditched"
        r"|abandoned|(?:pulled|backed|dropped) out of|got rid of|no longer|instead of|rather than"
        rf"|done with|broke up with) {_ENDED}{_UNTIL}",
        rf"\bleft {_ENDED}(?= (?:for|and)\b)",
        rf"\b(?:moved|changed|switched|went|gone)\b[^,.;!?]*? from {_ENDED}(?= to\b)",
        rf"(?:\bnot|n't) {_ENDED}(?= any ?(?:more|longer)\b| after all\b)",
        rf"(?:^|\b(?:my|our|the) )(?P<ended>[^,.;!?]+?)(?: has| have|'s| is| are| was| were| got)*"
        r" (?:fell through|fallen through|off(?=[,.;!]|$)|cancell?ed|called off|broke up)",
    )
)
"""Words before or after what has ended."""
_INSTEAD = re.compile(rf", not {_ENDED}(?=[,.;!?]|$)", re.IGNORECASE)
_COMPLETION = re.compile(rf"\bfinished {_ENDED}{_UNTIL}", re.IGNORECASE)
"""Words before what has ended, if it was in progress."""
_IN_PROGRESS = re.compile(r"(?:'m|'re|\bam|\bare|\bbeen) (?:\w+ )?\w+ing\b", re.IGNORECASE)
_UNREAL = re.compile(
    r"\b(?:if|might|(?-i:may)|maybe|perhaps|probably|would|could|should|almost|nearly|unless|wish|whether"
    r"|suppose|imagine|considering|thinking (?:of|about)|wants?|remind|years? ago|used to"
    r"|in (?:19|20)\d\d|back (?:then|when)|when (?:i|we) (?:was|were))\b|[\"\u201c\u201d]",
    re.IGNORECASE,
)
"""Words of suppositions, wishes and memories, and quotation marks."""
_OWN = re.compile(r"\W*(?:my|our) (?P<subject>\w+)", re.IGNORECASE)
_OTHERS = re.compile(r"\b(?:his|hers?|their)\b", re.IGNORECASE)
_DAY = rf"(?:\w+day\b|(?:{'|'.join(month[:3] for month in MONTHS)})[a-z]*\b)"
_VALUES = {
    "time": re.compile(r"\b\d{1,2}(?::\d\d| ?[ap]m\b)|\bat \d{1,2}\b|\bnoon\b", re.IGNORECASE),
    "day": re.compile(rf"\b(?:{_DAY}(?: \d+)?|\d{{1,2}}(?:st|nd|rd|th))\b"),
    "number": re.compile(
        r"(?<![\w:.,-])\W?\d[\d.,]*(?![\d:]| ?[ap]m\b|st\b|nd\b|rd\b|th\b)[a-z%]*"
    ),
    "rank": re.compile(r"\b(?:first|second|third|\w+(?<!mon)th)(?= [a-z])"),
    "name": re.compile(rf"(?<=[\w,] )(?!{_DAY})[A-Z][\w.+-]+"),
}
"""Kinds of values. A value replaces one of its kind."""
_NO_THING = re.compile(
    "|".join(f"(?:{_VALUES[kind].pattern})" for kind in ("rank", "number"))
)
_DETERMINERS = frozenset({"the", "a", "an", "my", "our", "this"})
_PAUSE = re.compile(r"[,:;]\s")


class Sentence(NamedTuple):
    """What a sentence names: its stems, and the values of each kind.

    `modifiers`: each stem, with those of the informative words right before it.
    """

    text: str
    stems: frozenset[str]
    modifiers: tuple[tuple[str, frozenset[str]], ...]
    values: tuple[tuple[str, str], ...]


def announces(
    later: Sequence[Sentence], earlier: Sequence[Sentence], asked: AbstractSet[str]
) -> bool:
    """Return whether the later message announces a change of what the earlier one states.

    `asked`: the stems of the question.
    """
    if _has_other_subject(earlier, later) or _has_other_subject(later, earlier):
        return False
    return any(
        _ends(new, old) or _changes(new, old, asked)
        for new, old in product(later, earlier)
        if not (_UNREAL.search(new.text) or asks(new.text))
    )


def corrects(later: Sequence[Sentence], earlier: Sequence[Sentence]) -> bool:
    """Return whether the later message gives a value instead of one of the earlier: "43, not 42"."""
    return any(
        _stems(words(found["ended"])) <= old.stems
        for new, old in product(later, earlier)
        for found in _INSTEAD.finditer(new.text)
    )


def read(text: str) -> tuple[Sentence, ...]:
    return tuple(map(_read, filter(None, _BREAK.split(text))))


def _read(text: str) -> Sentence:
    values = tuple((kind, one[0]) for kind, each in _VALUES.items() for one in each.finditer(text))
    names = _stems(value.lower() for kind, value in values if kind == "name")
    nouns = _NO_THING.sub(" , ", text)
    return Sentence(text, _stems(words(text)), tuple(_with_modifiers(nouns, names)), values)


def _with_modifiers(text: str, names: frozenset[str]) -> Iterator[tuple[str, frozenset[str]]]:
    """Yield each stem with its modifiers: "limit" with "API" in "API limit", "limit of the API".

    Names do not count: they may be values ("Elm School").
    """
    for phrase in chain.from_iterable(map(_phrases, _PAUSE.split(text))):
        for n, run in enumerate(phrase):
            after = list(chain.from_iterable(phrase[n + 1 :]))
            for k, stem in enumerate(run):
                modifiers = run[:k] + (after if k == len(run) - 1 else [])
                yield stem, frozenset(modifiers) - names


def _phrases(text: str) -> Iterator[list[list[str]]]:
    """Yield the stems of informative words in a row; a phrase has several rows around "of"."""
    phrase: list[list[str]] = [[]]
    for word, stem in zip(spoken := words(text), stems(spoken), strict=True):
        if is_informative(word):
            phrase[-1].append(stem)
        elif word == "of":
            phrase.append([])
        elif phrase[-1] or word not in _DETERMINERS:
            yield phrase
            phrase = [[]]
    yield phrase


def _has_other_subject(one: Sequence[Sentence], other: Sequence[Sentence]) -> bool:
    """Return whether one begins with "my …", which the other does not name, or is about others."""
    named = frozenset().union(*(each.stems for each in other))
    own = _OWN.match(one[0].text) if one else None
    if own and named.isdisjoint(_stems([own["subject"].lower()])):
        return True
    return any(_OTHERS.search(each.text) for each in one) and not any(
        _OTHERS.search(each.text) for each in other
    )


def _ends(new: Sentence, old: Sentence) -> bool:
    """Return whether the new sentence names something of the old one as ended."""
    endings = (*_ENDINGS, _COMPLETION) if _IN_PROGRESS.search(old.text) else _ENDINGS
    ended = (_stems(words(found["ended"])) for each in endings for found in each.finditer(new.text))
    return any(one and one <= old.stems for one in ended)


def _changes(new: Sentence, old: Sentence, asked: AbstractSet[str]) -> bool:
    """Return whether the new sentence has another value of the thing in question."""
    common = new.stems & old.stems
    if common.isdisjoint(asked) or not _CHANGE.search(new.text):
        return False
    if not all(_may_be_same(stem, new, old) for stem in common & asked):
        return False
    values, former = _values_beyond(new, old), _values_beyond(old, new)
    kinds = values.keys() & former.keys()
    if "name" in kinds and (len(kinds) > 1 or not _stems(former["name"]).isdisjoint(asked)):
        return False  # the names are of two things
    return bool(kinds) if values and former else not common <= asked


def _may_be_same(stem: str, new: Sentence, old: Sentence) -> bool:
    """Return whether a noun means the same: no two sentences modify it in different ways."""
    pairs = product(new.modifiers, old.modifiers)
    return any(
        stem == one == other and (by_one <= by_other or by_other <= by_one)
        for (one, by_one), (other, by_other) in pairs
    )


def _values_beyond(one: Sentence, other: Sentence) -> dict[str, list[str]]:
    """Return the values, by kind, that the other sentence lacks."""
    values: dict[str, list[str]] = {}
    for kind, value in one.values:
        if value not in other.text:
            values.setdefault(kind, []).append(value.lower())
    return values


def _stems(words_: Iterable[str]) -> frozenset[str]:
    return frozenset(stems(word for word in words_ if is_informative(word)))
