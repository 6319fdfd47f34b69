"""Find out whether two sentences state different values of the same thing.

Sentences are compared by their form alone. They are variants if they begin with the same frame (a
subject and a predicate) and differ in the value after it, or if one denies what the other states.
Predicates that can have several values at once, such as what somebody likes, has or did, make no
frame: a further value does not replace another.
"""

import re
from collections.abc import Iterator
from functools import cached_property, lru_cache
from itertools import islice, product
from typing import NamedTuple

from local2.language.attributes import expanded
from local2.language.clauses import leads_to_own_words
from local2.language.english import VOCABULARY
from local2.language.questions import asks
from local2.language.sentences import PART_BREAK
from local2.language.time import MONTHS, WEEKDAYS
from local2.language.words import bare_words, composed, is_informative, stems, word_set, words

MAX_SENTENCES = 12
"""Maximum number of sentences read per text."""
CACHED_TEXTS = 2_000
"""Number of texts whose sentences are cached: searches find the same texts again and again."""
MAX_WORDS, MIN_WORDS = 40, 3
"""Limits on the words of a statement."""
MAX_LEAD_IN = 6
"""Maximum words of a lead-in ("As you know, …"). Sentences are also read without it."""
MAX_VALUE = 5
"""Maximum number of words of a value."""
MAX_SHARED = 3
"""Maximum number of words with which both values may begin ("5 June", "5 July")."""
MIN_INFORMATIVE = 2
"""Minimum number of informative words in a denied statement."""

_COLON = re.compile(r":\s+")
_QUOTED = re.compile(
    r"```.*?(?:```|\Z)|^[ \t]*>[^\n]*|[\"\u201c](?:I|my|we|our)\b[^\"\u201d\n]*",
    re.IGNORECASE | re.MULTILINE | re.DOTALL,
)
"""Code, lines of a letter that is answered, and quotations in which somebody speaks."""
_QUOTES = ("```", ">", '"', "\u201c")
"""Signs of them, one of which must occur."""
_WORD = re.compile(r"[^\W_]+(?:[.,:@/'\u2019-]+[^\W_]+)*")
"""A word. Amounts, times, addresses and hyphenated names count as one."""
_POSSESSIVE = frozenset({"'s", "\u2019s"})


_CHANGED = (
    "moved|changed|switched|rescheduled|postponed|delayed|extended|shortened|slipped|pushed|raised"
    "|lowered|increased|reduced|cut|dropped|renamed"
)
_TIME = r"(?:last |next |this )?\w+(?: \d{1,4})?"
_DAY_OR_MONTH = rf"(?:{'|'.join((*WEEKDAYS, *(month[:3] for month in MONTHS)))})"
_PLACED = r"(?:at|on|in|up|down|back|now|not)\b"
_BEEN = "(?:have been|has been|was|is|has)"
_ONE_THING = r"(?:my|our|the|your|[^\W_]+['\u2019]s)(?: [\w'\u2019-]+){1,3}"
_NOT_A_NAME = "(?:after|by|for|from|if|in|off|on|to|upon|when)"
_IS_PLACED = "is on|is at|is to|is back|is up|is down|are on|are at|are to|are back|are up|are down"
_RELATIVE_MOVED = expanded(
    r"\b(?P<who>(my|our) (<only_kin>|<kin>|aunt|uncle|niece|nephew|cousin)( <given>)?)"
    r"( has|'s)? ((just|finally|recently) )*moved (from [\w ]{1,40} )?to(?= <given>)",
    VOCABULARY,
).pattern
_PHRASES = tuple(
    (tuple(signs.split("|")), re.compile(phrase, re.IGNORECASE), plain)
    for signs, phrase, plain in (
        ("n't|n\u2019t", r"n['\u2019]t\b", " not"),
        ("'m|'re|\u2019m|\u2019re", r"['\u2019](?:m|re)\b", " am"),
        ("'s|\u2019s", rf"(?<=\w)['\u2019]s (?={_PLACED}|\d|{_DAY_OR_MONTH})", " is "),
        ("'ve|\u2019ve", r"['\u2019]ve\b", " have"),
        ("cannot", r"\bcannot\b", "can not"),
        ("no longer", r"\bno longer\b", "not"),
        ("the user", r"\bthe user['\u2019]s\b", "my"),
        ("the user", r"\bthe user\b", "I"),
        ("now|today", r"\b(?:as of|from|since|starting|for|right) (?:now|today)(?: on)?\b", ""),
        ("any", r"\bany ?more\b", ""),
        (
            "since|as of|starting",
            rf"(?:^|(?<=[.!?] ))(?:since|as of|starting) {_TIME},? (?=(?:my|our|the|I|we)\b)",
            "",
        ),
        (
            "moved",
            r"\b(?:I|we) (?:have )?(?:(?:just|finally|recently) )*moved (?:from [\w ]{1,40} )?to\b",
            "I live in",
        ),
        ("moved", _RELATIVE_MOVED, r"\g<who> lives in"),
        ("we live", r"\bwe live\b", "I live"),
        ("joined|started", r"\b(I|we) (?:have )?(?:just )?(?:joined|started at)\b", r"\1 work at"),
        ("work for", r"\b(I|we) work for\b", r"\1 work at"),
        (
            "switched",
            r"\b(I|we) (?:have )?(?:just )?switched (?:from [\w ]{1,40} )?to\b",
            r"\1 use",
        ),
        (
            _CHANGED,
            rf"\b(?:{_BEEN} )?(?:{_CHANGED})(?: from [\w .,:]{{1,40}}?)? to\b",
            "is",
        ),
        ("called|named", r"\bI am (?:called|named)\b", "my name is"),
        (
            "called|named",
            rf"(?:^|(?<=[.!?,:;] ))({_ONE_THING}) is (?:now )?(?:called|named) (?!{_NOT_A_NAME}\b)",
            r"\1 name is ",
        ),
        (
            _IS_PLACED,
            rf"\b(is|are) (?:(?:back|up|down) )?(?:on|at|to) (?=\d|{_DAY_OR_MONTH})",
            r"\1 ",
        ),
    )
)
"""Replacements by `reworded`: signs of which one must occur, a pattern, and its replacement."""


_BE = dict.fromkeys(("am", "is", "are"), "be") | dict.fromkeys(("was", "were"), "was")
_TO_USER = {"you": "i", "your": "my"}
_DENIES = frozenset({"not", "never"})
_ADDS = frozenset({"also", "too", "another", "additionally", "both", "besides"})
_IGNORED = _DENIES | word_set(
    """
    actually currently now nowadays today really just still already always so well ok okay
    do does did have has had been please and but oh hi hey yes yeah
    """
)
_UNKNOWN_SUBJECTS = word_set(
    """
    he she it they this that these those there you what which who here let
    """
)
"""Words at the beginning of a sentence whose subject is not known."""
_ARTICLES = frozenset({"a", "an"})
_DETERMINERS = frozenset({"the", "our"})  # do not count at the beginning of a sentence
_CHOICE_WORDS = word_set(
    """
    favorite favourite preferred usual default main current
    """
)
_BEFORE_VALUE = word_set(
    """
    in at by to on of for from with as near under until till about around
    """
)
_STATE_VERBS = word_set(
    """
    live reside work stay study weigh cost earn speak play belong stand lie start begin end
    close open leave arrive expire run use prefer last report teach lead manage meet amount
    total sleep wake
    """
)
STATES = _STATE_VERBS | {f"{verb}s" for verb in _STATE_VERBS} | {"goes", "studies"}
"""Verbs of states that have one value at a time."""
_BASE_FORMS = _BE | {f"{verb}s": verb for verb in _STATE_VERBS} | {"goes": "go", "studies": "study"}
"""Maps words to the form in which they are compared: "lives" and "live" are equal."""
_MULTI_VALUED = word_set(
    """
    like likes liked love loves loved enjoy enjoys hate hates dislike want wants visit
    visited saw see read bought know knows met allergic interested afraid fond good bad
    excited worried proud happy sorry sure glad aware grateful thankful inspired tired bored
    ready able amazed surprised obsessed passionate concerned involved fan member friend
    kind part lot nervous scared keen full open curious thrilled busy called named titled
    """
)
"""Words of predicates that may hold for several values at once."""


def reworded(text: str) -> str:
    """The text with a single wording for equal meanings, so that statements compare."""
    text = composed(text)
    folded = text.lower()
    for signs, phrase, plain in _PHRASES:
        if any(map(folded.__contains__, signs)):
            text = phrase.sub(plain, text)
            folded = text.lower()
    return text


class Statement(NamedTuple):
    """A sentence in the form for comparison, without words that add nothing.

    `frames`: prefixes of the words; statements with a common frame are about the same thing.
    `denied`: the index of the word after "not" or "never".
    """

    words: tuple[str, ...]
    frames: tuple[tuple[str, ...], ...]
    denied: int | None


class Sentence:
    """A sentence whose statement is read on demand.

    `opening`: its words up to the one after the first informative one. Only sentences with the same
    opening can be about the same thing, so others are not compared.
    """

    def __init__(self, opening: tuple[str, ...], text: str, *, to_user: bool) -> None:
        self.opening = opening
        self._text = text
        self._to_user = to_user

    @cached_property
    def statement(self) -> Statement | None:
        """What the sentence states; None if it asks or names one of several values."""
        words: list[str] = []
        named: list[bool] = []
        denied = None
        for written in _WORD.findall(self._text):
            word = _normalised(written)
            if word in _ADDS:
                return None
            if word not in _IGNORED and (words or word not in _DETERMINERS):
                words.append(_TO_USER.get(word, word) if self._to_user else word)
                named.append(_is_named(written, first=len(words) == 1))
            elif word in _DENIES and denied is None:
                denied = len(words)
        if not MIN_WORDS <= len(words) <= MAX_WORDS or asks(self._text):
            return None
        compared = tuple(_BASE_FORMS.get(word, word) for word in words)
        values = () if denied is not None else _value_positions(words, named)
        return Statement(compared, tuple(compared[:n] for n in values), denied)


@lru_cache(maxsize=CACHED_TEXTS)
def sentences_of(text: str, *, to_user: bool = False) -> tuple[Sentence, ...]:
    """The first sentences of a text whose subject is known.

    `to_user`: the text addresses the user as "you".
    """
    if any(map(text.__contains__, _QUOTES)):
        text = _QUOTED.sub(" ", text)
    sentences = (
        Sentence(opening, sentence, to_user=to_user)
        for lead_in, sentence in _sentences(reworded(text))
        if (opening := _opening(sentence, to_user=to_user))
        and (not lead_in or leads_to_own_words(lead_in))
    )
    return tuple(islice(sentences, MAX_SENTENCES))


def _sentences(text: str) -> Iterator[tuple[str, str]]:
    """Yield each sentence, and it again after a colon or a comma, behind what leads to that."""
    for sentence in PART_BREAK.split(text):
        yield "", sentence
        rest = _COLON.split(sentence, 1)[-1] if ":" in sentence else sentence
        if rest != sentence:
            yield sentence.removesuffix(rest), rest
        before, comma, after = rest.partition(", ")
        if comma and before.count(" ") < MAX_LEAD_IN:
            yield sentence.removesuffix(after), after


def _opening(sentence: str, *, to_user: bool) -> tuple[str, ...]:
    opening: list[str] = []
    was_informative = False
    for found in _WORD.finditer(sentence):
        word = _normalised(found[0])
        if word in _IGNORED or (not opening and word in _DETERMINERS):
            continue
        if not opening and word in _UNKNOWN_SUBJECTS:
            return ()
        word = _TO_USER.get(word, word) if to_user else word
        opening.append(_BASE_FORMS.get(word, word))
        if was_informative:
            return tuple(opening)
        was_informative = is_informative(word)
    return ()


def _normalised(written: str) -> str:
    word = written.lower()
    return word[:-2] if word[-2:] in _POSSESSIVE else word


def _is_named(word: str, *, first: bool) -> bool:
    """Whether a word is written like a name, an amount or an address."""
    if word.islower() or word == "I":
        return "@" in word or any(map(str.isdigit, word))
    return not first or not word.istitle()


def _value_positions(words: list[str], named: list[bool]) -> Iterator[int]:
    """Yield the indices at which values begin: after "is", or after the predicate's preposition."""
    verb = None
    lasts = described = False
    for n in range(1, len(words)):
        before = words[n - 1]
        if before in _BE:
            verb, described = n - 1, not _CHOICE_WORDS.isdisjoint(words[:n])
            found = _is_described(words, named, n)
        elif before in _BEFORE_VALUE:
            is_state = lasts
            if verb is not None:  # more than a preposition, and no action in progress
                predicate = words[verb + 1 : n]
                is_state = len(predicate) > 1 and not predicate[0].endswith("ing")
            found = is_state or (before == "of" and _names_kind(words, n))
        else:
            lasts = lasts or (n > 1 and before in STATES)
            continue
        if not found or not any(map(is_informative, words[: n - 1])):
            continue
        if not _MULTI_VALUED.isdisjoint(words[1 if verb is None else verb + 1 : n + 1]):
            return
        short = len(words) - n <= MAX_VALUE and (described or before == "of" or any(named[:n]))
        if short or any(named[n : n + MAX_VALUE]):
            yield n


def _names_kind(words: list[str], n: int) -> bool:
    """Whether the kind of the value precedes it: "plays the position of", "in the city of".

    `n`: the index of the value, after "of".
    """
    if n <= MIN_WORDS or words[n - 3] != "the":
        return False
    verb = words[n - 4]
    return verb in _BEFORE_VALUE or verb.endswith(("s", "ed"))


def _is_described(words: list[str], named: list[bool], n: int) -> bool:
    """Whether the "is" before a value joins something with its name or description."""
    if words[n - 1] in {"was", "were"} or words[n] in _ARTICLES or words[n].endswith("ing"):
        return False
    return named[n] or _BEFORE_VALUE.isdisjoint(words[n:])


def is_about_same(one: Statement, other: Statement) -> bool:
    """Whether both may be about the same: they have a common frame, or one is a denial."""
    if (one.denied is None) != (other.denied is None):
        return True
    return any(frame in other.frames for frame in one.frames)


def is_same(one: Statement, other: Statement) -> bool:
    """Whether both state the same thing in the same words."""
    return one.words == other.words and (one.denied is None) == (other.denied is None)


def is_variant(one: Statement, other: Statement) -> bool:
    """Whether both state different values of the same thing, or one denies the other."""
    prefix = _common_prefix(one.words, other.words)
    shorter = min(len(one.words), len(other.words))
    if (one.denied is None) != (other.denied is None):
        denied = one.denied if other.denied is None else other.denied
        informative = sum(map(is_informative, one.words[:prefix])) >= MIN_INFORMATIVE
        return prefix == shorter and denied is not None and denied < prefix and informative
    suffix = _common_prefix(one.words[prefix:][::-1], other.words[prefix:][::-1])
    if prefix + suffix >= shorter or "be" in one.words[prefix:] or "be" in other.words[prefix:]:
        return False  # one repeats the other in more words, or is about something else
    return any(prefix - MAX_SHARED <= len(frame) and frame in other.frames for frame in one.frames)


def differ_in_value(text: str, other: str) -> bool:
    """Whether two texts state different values of the same thing."""
    return any(
        one.opening == another.opening
        and one.statement is not None
        and another.statement is not None
        and is_about_same(one.statement, another.statement)
        and is_variant(one.statement, another.statement)
        for one, another in product(sentences_of(text), sentences_of(other))
    )


def _common_prefix(one: tuple[str, ...], other: tuple[str, ...]) -> int:
    """The number of words with which both begin."""
    for n, (word, another) in enumerate(zip(one, other, strict=False)):
        if word != another:
            return n
    return min(len(one), len(other))


CACHED_FACTS = 1_000
"""Number of facts that are cached as they are compared: more than those of a batch."""
MIN_FRAME, MAX_DIFFERENCE = 2, 4
"""Minimum number of words with which two texts must both begin if they differ in one value, and
maximum number of words of that value."""
_NEGATIVE = frozenset(
    {"not", "no", "never", "don", "doesn", "didn", "isn", "aren", "won", "without"}
)
"""Words, without clitics, that turn a statement into its opposite."""


def differ_in_one_value(one: str, other: str) -> bool:
    """Whether two texts have the same words but for one value, in any language."""
    words_, others = bare_words(one), bare_words(other)
    shorter = min(len(words_), len(others))
    begin = _common_prefix(words_, others)
    end = min(_common_prefix(words_[::-1], others[::-1]), shorter - begin)
    lengths = [len(text) - begin - end for text in (words_, others)]
    return begin >= MIN_FRAME and min(lengths) >= 1 and max(lengths) <= MAX_DIFFERENCE


def contains(whole: str, part: str) -> bool:
    """Whether one statement contains everything that the other one states."""
    one, other = _compared_form(whole), _compared_form(part)
    return one.is_negative == other.is_negative and other.stems in one.stems


class _ComparedForm(NamedTuple):
    is_negative: bool
    stems: str


@lru_cache(CACHED_FACTS)
def _compared_form(content: str) -> _ComparedForm:
    """A fact in the form for comparison; cached, as each is compared with many others."""
    found = words(content)
    return _ComparedForm(not _NEGATIVE.isdisjoint(found), f" {' '.join(stems(found))} ")


def forget_compared() -> None:
    """Clear what is cached of compared texts, after some were erased."""
    sentences_of.cache_clear()
    _compared_form.cache_clear()
