"""Recognise messages that announce a change of what an earlier message states.

"We shifted the backup to 4 am" has not the form of "The backup runs at 2 am", so `statements.py`
cannot compare them. But it has a word of change, names what the question asks about, and has
another value of the same kind. "I left Acme for Northwind" names the former value, which has ended.

Suppositions, memories, quotations and the affairs of others announce nothing. Only English is
recognised. See decision 0089.
"""

import re
from collections.abc import Iterator, Sequence
from collections.abc import Set as AbstractSet
from functools import cached_property
from itertools import chain, product

from local.memory.recall.statements import BREAK, STATES
from local.text.features import MONTHS, asks
from local.text.words import is_informative, stems, words

_CHANGE = re.compile(
    r"\b(?:(?P<verb>moved|changed|switched|swapped|replaced|renamed|raised|lowered|increased"
    r"|decreased|reduced|cut|bumped|upgraded|downgraded|migrated|shifted|pushed|postponed"
    r"|rescheduled|delayed|brought|extended|shortened|relocated|transferred|promoted|adjusted)"
    r"|rose|fell|dropped|slipped|(?:went|gone|go|goes) (?:up|down)|(?:takes?|took|handed)\b.*? over"
    r"|(?:up|down|back) (?:to|at|on)|instead|these days|now(?=[,.;!]|$)|as of"
    r"|from (?:now|(?:this|next) \w+)(?: on)?|starting (?=this|next|\w+day\b))\b",
    re.IGNORECASE,
)
"""Words of a change."""
_STOP = re.compile(
    r"\b(?:for|from|with|and|to|up|down|back|any|in|on|at|by|over|because|since|so|but|after|last"
    r"|this)\b|[,.;!?]"
)
"""Where the object of a verb ends."""
_ENDED = (
    r"(?:(?:my|our|the|with|at|using|seeing|doing|playing|drinking|eating) )*(?P<ended>[^,.;!?]+?)"
)
_BEFORE_ENDED = (
    r"\b(?:quit|stopped|dropped|g[ai]ven? up|sold|replaced|scrap(?:ped)?|cancell?ed|ditched"
    r"|abandoned|(?:pulled|backed|dropped) out of|got rid of|no longer|instead of|rather than"
    r"|done with|gone off|broke up with|swapped)"
)
_AFTER_ENDED = (
    r"(?: has| have|'s| is| are| was| were| got)*"
    r" (?:fell through|fallen through|off(?=[,.;!]|$)|cancell?ed|called off|broke up"
    r"|moved out|stepped down|resigned|retired|left(?=[,.;!]|$)|went bankrupt|(?:shut|closed) down)"
)
_SUCCESSOR = r"(?= for (?-i:[A-Z])| (?:and|to) (?:i )?(?:now )?(?:join|start|work|am\b|moved|live))"
_ENDINGS = tuple(
    re.compile(pattern, re.IGNORECASE)
    for pattern in (
        rf"{_BEFORE_ENDED} {_ENDED}(?= (?:{_STOP.pattern})|[,.;!?]|$)",
        rf"\bleft {_ENDED}{_SUCCESSOR}",
        rf"\b(?:moved|changed|switched|went|gone)\b[^,.;!?]*? from {_ENDED}(?= to\b)",
        rf"(?:\bnot|n't) {_ENDED}(?= any ?(?:more|longer)\b| after all\b)",
        rf"(?:^|\b(?:my|our|the) )(?P<ended>[^,.;!?]+?){_AFTER_ENDED}",
    )
)
"""Words before or after what has ended."""
_COMPLETION = re.compile(rf"\bfinished {_ENDED}(?= (?:{_STOP.pattern})|[,.;!?]|$)", re.IGNORECASE)
"""Words before what has ended, if it was in progress."""
_IN_PROGRESS = re.compile(r"(?:'m|'re|\bam|\bare|\bbeen) (?:\w+ )?\w+ing\b", re.IGNORECASE)
_INSTEAD = re.compile(rf", not {_ENDED}(?=[,.;!?]|$)", re.IGNORECASE)
"""Words before the former value in a correction."""
_UNREAL = re.compile(
    r"\b(?:if|might|(?-i:may)|maybe|perhaps|probably|would|could|should|almost|nearly|unless|wish"
    r"|whether|suppose|imagine|considering|thinking (?:of|about)|wants?|remind|years? ago|used to"
    r"|in (?:19|20)\d\d|back (?:then|when)|when (?:i|we) (?:was|were))\b|[\"\u201c\u201d]",
    re.IGNORECASE,
)
"""Words of suppositions, wishes and memories, and quotation marks."""
_OWN = re.compile(r"\W*(?:my|our) (?P<subject>[\w-]+)(?![\w-])", re.IGNORECASE)
_OWN_DOING = re.compile(
    rf"{_OWN.pattern}(?!(?: [\w-]+){{0,2}} (?:is|are)(?! (?:at|in|on|from|with)\b))", re.IGNORECASE
)
"""As `_OWN`, but not "my … is …", where what has ended may be the value."""
_OF_OTHERS = re.compile(r"[^,;]*\b(?:his|hers?|their)\b", re.IGNORECASE)
"""Another person's, in the first clause: what follows may be the reason."""
_VERBS = frozenset(stems(STATES))
"""Stems that name no thing."""
_PERSON = re.compile(r"\b(?!(?:I|We|They)\b)(?P<name>[A-Z]\w*)(?: has| have| just)* $")
"""A name right before a verb."""

_PAUSE = re.compile(r"[,:;]\s")
_DETERMINERS = frozenset({"the", "a", "an", "my", "our", "this"})
_WEEKDAY = "(?i:mon|tues|wednes|thurs|fri|satur|sun)day"
_MONTH = "|".join(f"{month[:3]}(?:{month[3:]})?" for month in MONTHS)
_DAY = rf"(?:{_WEEKDAY}|{_MONTH})s?\b"
_NUMBER = r"(?<![\w:.,-])\W?\d[\d.,]*(?![\d:]| ?[ap]m\b|st\b|nd\b|rd\b|th\b)[a-z%]*"
_RANK = r"\b(?:first|second|third|(?:four|fif|six|seven|eigh|nin|ten)th)(?= [a-z])"
_VALUES = {
    "time": re.compile(r"\b\d{1,2}(?::\d\d| ?[ap]m\b)|\bat \d{1,2}\b|\bnoon\b", re.IGNORECASE),
    "day": re.compile(rf"\b(?:{_DAY}(?: \d+)?|\d{{1,2}}(?:st|nd|rd|th)\b)"),
    "number": re.compile(_NUMBER),
    "rank": re.compile(_RANK),
    "name": re.compile(rf"(?<=[\w,] )(?!I\b|{_DAY})[A-Z][\w.+-]*"),
}
"""The kinds of values. The first word of a sentence does not count as a name."""
_NO_MODIFIER = re.compile(f"{_NUMBER}|{_RANK}")


class AnalysedSentence:
    """A sentence with what the rules compare, each part computed when it is first needed."""

    def __init__(self, text: str) -> None:
        self.text = text

    @cached_property
    def stems(self) -> frozenset[str]:
        return stems_of(self.text)

    @cached_property
    def values(self) -> list[tuple[str, str]]:
        """The values with their kinds. The number of a day is no number."""
        found: list[tuple[str, str]] = []
        rest = self.text
        for kind, pattern in _VALUES.items():
            found += [(kind, value) for value in pattern.findall(rest)]
            rest = pattern.sub(" , ", rest)
        return found

    @cached_property
    def modifiers(self) -> list[tuple[str, frozenset[str]]]:
        """The stems with their modifiers: "limit" with "API" in "API limit", "limit of the API".

        Names do not count as modifiers, because they may be values ("Elm School").
        """
        nouns = _NO_MODIFIER.sub(" , ", self.text)
        phrases = chain.from_iterable(map(_phrases, _PAUSE.split(nouns)))
        found = chain.from_iterable(map(_modifiers, phrases))
        return [(stem, modifiers - self.names) for stem, modifiers in found]

    @cached_property
    def names(self) -> frozenset[str]:
        """The stems of the names."""
        return stems_of(" ".join(value for kind, value in self.values if kind == "name"))

    @cached_property
    def may_announce(self) -> bool:
        text, patterns = self.text, (_CHANGE, _COMPLETION, *_ENDINGS)
        return any(one.search(text) for one in patterns) and not (
            _UNREAL.search(text) or asks(text)
        )

    def values_beyond(self, other: "AnalysedSentence") -> dict[str, frozenset[str]]:
        """Return the stems of the values that the other sentence lacks, by kind."""
        beyond = [(kind, value) for kind, value in self.values if value not in other.text]
        return {kind: stems_of(" ".join(v for k, v in beyond if k == kind)) for kind, _ in beyond}

    def may_mean(self, other: "AnalysedSentence", stem: str) -> bool:
        """Return whether a stem means the same in both: they do not modify it in different ways."""
        return stem in self.names | other.names or any(
            stem == one == another and (by_one <= by_another or by_another <= by_one)
            for (one, by_one), (another, by_another) in product(self.modifiers, other.modifiers)
        )

    def modifies(self, stem: str) -> Iterator[str]:
        """Yield the stems that a stem modifies."""
        return (one for one, modifiers in self.modifiers if stem in modifiers)


def analyse(text: str) -> tuple[AnalysedSentence, ...]:
    return tuple(map(AnalysedSentence, filter(None, BREAK.split(text))))


def stems_of(text: str) -> frozenset[str]:
    """Return the stems of the informative words."""
    return frozenset(stems(filter(is_informative, words(text))))


def announces(
    later: Sequence[AnalysedSentence], earlier: Sequence[AnalysedSentence], asked: AbstractSet[str]
) -> bool:
    """Return whether the later message announces a change of what the earlier one states.

    `asked`: the stems of the question.
    """
    announcing = [one for one in later if one.may_announce]
    if not announcing or _names_another(later, earlier):
        return False
    pairs = list(product(announcing, earlier))
    return (
        any(_ends(new, old, asked) for new, old in pairs)
        and not _names_another(earlier, later, _OWN_DOING)
    ) or (
        any(_changes(new, old, asked) for new, old in pairs) and not _names_another(earlier, later)
    )


def corrects(later: Sequence[AnalysedSentence], earlier: Sequence[AnalysedSentence]) -> bool:
    """Return whether the later message replaces a value of the earlier one: "43, not 42"."""
    instead = (stems_of(one["ended"]) for new in later for one in _INSTEAD.finditer(new.text))
    return any(former <= old.stems for former in filter(None, instead) for old in earlier)


def _names_another(
    one: Sequence[AnalysedSentence],
    other: Sequence[AnalysedSentence],
    pattern: re.Pattern[str] = _OWN,
) -> bool:
    """Return whether one is about "my …", which the other does not name, or about others."""
    named = frozenset().union(*(each.stems for each in other))
    own = pattern.match(one[0].text) if one else None
    of_others = any(_OF_OTHERS.match(each.text) for each in one)
    return (own is not None and named.isdisjoint(stems_of(own["subject"]))) or (
        of_others and not any(_OF_OTHERS.match(each.text) for each in other)
    )


def _ends(new: AnalysedSentence, old: AnalysedSentence, asked: AbstractSet[str]) -> bool:
    """Return whether the new sentence names something of the old one as ended."""
    return any(
        ended <= old.stems and all(asked.isdisjoint(old.modifies(one)) for one in ended)
        for ended in _ended(new, old)
    )


def _ended(new: AnalysedSentence, old: AnalysedSentence) -> Iterator[frozenset[str]]:
    """Yield the stems of each thing that has ended, if not for a person of another name."""
    endings = (*_ENDINGS, _COMPLETION) if _IN_PROGRESS.search(old.text) else _ENDINGS
    for found in (found for each in endings for found in each.finditer(new.text)):
        by = _PERSON.search(new.text[: found.start()])
        if (ended := stems_of(found["ended"])) and not (by and by["name"] not in old.text):
            yield ended


def _changes(new: AnalysedSentence, old: AnalysedSentence, asked: AbstractSet[str]) -> bool:
    """Return whether the new sentence has another value of the thing in question."""
    common = new.stems & old.stems
    in_question = common & asked
    things = in_question - _VERBS
    if not (things and _is_changed(things, new.text)):
        return False
    if not all(new.may_mean(old, stem) for stem in in_question):
        return False
    values, former = new.values_beyond(old), old.values_beyond(new)
    kinds = values.keys() & former.keys()
    if "name" in kinds and (len(kinds) > 1 or not former["name"].isdisjoint(asked)):
        return False  # the names are of two things
    return bool(kinds) if values and former else not common <= asked


def _is_changed(things: AbstractSet[str], text: str) -> bool:
    """Return whether words of change have one of the things as their object, or no object."""
    found = list(_CHANGE.finditer(text))
    objects = (stems_of(_STOP.split(text[one.end() :], 1)[0]) for one in found if one["verb"])
    changed = frozenset().union(*objects)
    return bool(found) and not (changed and changed.isdisjoint(things))


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


def _modifiers(phrase: list[list[str]]) -> Iterator[tuple[str, frozenset[str]]]:
    """Yield each stem with those before it in its row; the last one also with those after "of"."""
    for n, row in enumerate(phrase):
        following = list(chain.from_iterable(phrase[n + 1 :]))
        for k, stem in enumerate(row):
            yield stem, frozenset(row[:k] + (following if k == len(row) - 1 else []))
