"""Find out whether two sentences state the same thing in other words.

Precision comes first. Both must have the same words but for inflection, order, words that add
nothing, and the phrases of `_VERBS` and `_OTHERS`; any other word has only itself for a synonym. A
word that leads another one ("without milk", "I like", "my sister") belongs to it, so that roles
cannot be exchanged. Lists, questions and texts of several sentences are compared word for word.
"""

import re
from collections.abc import Sequence
from collections.abc import Set as AbstractSet
from functools import lru_cache
from itertools import pairwise
from typing import NamedTuple

from local2.language.questions import is_question
from local2.language.sentences import PART_BREAK
from local2.language.words import bare_words, is_informative, word_set

MAX_WORDS = 30
"""Maximum number of words of a sentence that is read."""
MAX_COMMAS = 1
"""Maximum number of commas of such a sentence; one with more is a list."""
MAX_MOVED = 4
"""Maximum number of pieces of a sentence that make up another one in a different order."""
KNOWN_WORDS = 20_000
"""Number of words that are kept without their endings: texts consist of the same words."""
MIN_STEM = 2
"""Minimum length of a word without its ending."""

_LIST = re.compile(r"[:;\n\u2022]")
_BETWEEN_LETTERS = re.compile(r"(?<=[^\W\d_])[-\u2010\u2011/](?=[^\W\d_])")
_CONTRACTIONS = (
    (re.compile(r"\b(?:can't|cannot)\b"), "can not"),
    (re.compile(r"\bwon't\b"), "will not"),
    (re.compile(r"(?<=\w)n't\b"), " not"),
    (re.compile(r"(?<=\bi)'m\b"), " am"),
    (re.compile(r"(?<=\w)'re\b"), " are"),
    (re.compile(r"(?<=\w)'ve\b"), " have"),
    (re.compile(r"(?<=\w)'ll\b"), " will"),
    (re.compile(r"(?<=\w)'d\b"), " would"),
    (re.compile(r"\b(it|he|she|that|there|what|who)'s\b"), r"\1 is"),
    (re.compile(r"(?<=\w)'s name is\b"), " is"),
    (re.compile(r"(?<=\w)'s home is\b"), " lives"),
)
_SURROUNDING = (
    (re.compile(r"^the name of (?=(?:my|our|the)\b)"), ""),
    (re.compile(r"^i (?:have|own) an? (\w+(?: \w+)?) (?:named|called)\b"), r"my \1 is"),
)
"""Forms that stand around what they are about, with what is read instead."""
_AMERICAN = (
    (re.compile(r"(?<=[a-z]{3})our(?=s?$|ed$|ing$|ite$)"), "or"),
    (re.compile(r"(?<=[a-z]{3})is(?=e$|es$|ed$|ing$)"), "iz"),
)
"""British spellings, with what is read instead."""
_NUMBERS = {
    word: str(number)
    for number, word in enumerate(
        ("two", "three", "four", "five", "six", "seven", "eight", "nine", "ten", "eleven"), start=2
    )
}


_IS = "is"
_FORMS_OF_IS = word_set("am is are")
_ARTICLES = word_set("a an")
_SILENT = _ARTICLES | word_set(
    """
    the of do does that which what who something also just really very quite absolutely definitely
    truly totally particularly especially actually currently now please
    """
)
"""Words that add nothing to a statement."""
_LEADING = word_set(
    """
    without before after over under against until till since near behind beside beyond between
    through every each even almost nearly never more less most least except unless despite instead
    via per other another must may might shall
    """
)
"""Words that lead the next one, in addition to those that are not informative."""
_DEFINITE = word_set("my our his her their your")
_FROM_USER = {"they": "i", "their": "my", "them": "me", "theirs": "mine", "themselves": "myself"}
_VERBS = {
    "like": (
        "like|love|enjoy|adore|prefer|is fond|is keen on|is partial to|is fan|is big fan"
        "|is huge fan|is great fan|like to|love to|prefer to|like best|like most|love most"
    ),
    "i like": "my favorite|is my favorite",
    "dislike": "dislike|hate|detest|loathe|not like|can not stand|can not bear|hate to|not like to",
    "want": "want|would like|would love|wish for",
    "have": "have|own|possess|have got",
    "live": "live|reside|is based|is living|is residing",
    "i live": "my home is",
    "work at": "work at|work for|is working at|is working for|is employed by|is employed at",
    "i work at": "my employer is",
    "study": "study|is studying|is student",
}
_OTHERS = {
    "is": "is called|is named|work as|is working as|is employed as",
    "i is": "my name is|my job is being",
    "is afraid": "is scared|is frightened|is terrified",
    "not": "never",
    "every": "each",
}
"""What phrases are read as. They are written without words that add nothing; "am" is "is"."""


class _Word(NamedTuple):
    """A word, without its ending. `is_one`: it follows "a" or "an"."""

    stem: str
    ending: str = ""
    written: str = ""
    is_one: bool = False


class _Part(NamedTuple):
    """A word with those that lead it: the unit in which statements are compared."""

    leading: tuple[str, ...]
    stem: str


class _Reading(NamedTuple):
    """A sentence as its parts, and the word of each.

    `has_known_verb`: no other word has to be its verb. `is_at`: the number of parts before the only
    "is", if there is one.
    """

    parts: list[_Part]
    words: list[_Word]
    has_known_verb: bool
    is_at: int | None

    @property
    def has_speaker(self) -> bool:
        return any({"i", "we"}.intersection(part.leading) for part in self.parts)

    @property
    def may_be_reordered(self) -> bool:
        return self.has_speaker or self.is_at is not None


def paraphrase_key(text: str, speaker: str | None) -> tuple[object, ...]:
    """Make a key that is equal for texts that may say the same. `speaker`: who says "I"."""
    reading = _read(text, speaker)
    if reading is None:
        return _plain_words(text)
    return tuple(sorted(reading.parts) if reading.may_be_reordered else reading.parts)


def are_paraphrases(one: str, other: str, speaker: str | None) -> bool:
    """Whether two texts of one speaker say the same in other words."""
    first, second = _read(one, speaker), _read(other, speaker)
    if first is None or second is None:
        return first is second and _plain_words(one) == _plain_words(other)
    names = _names_in(one) | _names_in(other)
    return (
        sorted(first.parts) == sorted(second.parts)
        and first.may_be_reordered == second.may_be_reordered
        and _orders_agree(first, second, names)
        and _endings_agree(first, second, names)
    )


def _plain_words(text: str) -> tuple[str, ...]:
    return tuple(word for word in bare_words(text) if word and word not in _SILENT)


def _read(text: str, speaker: str | None) -> _Reading | None:
    """The parts of a sentence; None for a text that is compared word for word."""
    if (
        text.count(" ") >= MAX_WORDS
        or text.count(",") > MAX_COMMAS
        or _LIST.search(text)
        or PART_BREAK.search(text.rstrip())
        or is_question(text)
    ):
        return None
    words, has_known_verb = _with_known_meanings(_stemmed(_spoken_words(text, speaker)))
    parts: list[_Part] = []
    contents: list[_Word] = []
    leading: list[str] = []
    is_at: list[int] = []
    for word in words:
        if word.stem == _IS:
            is_at.append(len(parts))
        elif word.stem in _LEADING or not is_informative(word.stem):
            leading.append(word.stem)
        else:
            parts.append(_Part(tuple(leading), word.stem))
            contents.append(word)
            leading = []
    if leading:  # "My mother calls me"
        parts.append(_Part(tuple(leading), ""))
        contents.append(_Word(""))
    only_is = is_at[0] if len(is_at) == 1 else None
    return _Reading(parts, contents, has_known_verb, only_is) if parts else None


def _spoken_words(text: str, speaker: str | None) -> list[str]:
    """The words of a text as the speaker would say them: "I" for "the user"."""
    plain = _BETWEEN_LETTERS.sub(" ", " ".join(bare_words(text.replace("\u2019", "'"))))
    for pattern, instead in (*_CONTRACTIONS, *_SURROUNDING) if "'" in plain else _SURROUNDING:
        plain = pattern.sub(instead, plain)
    speakers = {"user", speaker.casefold() if speaker else "user"}
    words = plain.split()
    if not any(word.removesuffix("'s") in speakers for word in words):
        return words
    forms = dict.fromkeys(speakers, "i") | {f"{word}'s": "my" for word in speakers}
    return [forms.get(word) or _FROM_USER.get(word, word) for word in words]


def _stemmed(spoken: Sequence[str]) -> list[_Word]:
    """The words that say something, without their endings."""
    words: list[_Word] = []
    is_one = False
    for word in spoken:
        if word in _ARTICLES:
            is_one = True
        elif word in _FORMS_OF_IS:
            words.append(_Word(_IS))
            is_one = False
        elif word not in _SILENT:
            is_one = is_one and is_informative(word)
            stem, ending = _without_ending(word)
            if ending == "ed" and words and words[-1].stem == _IS:
                ending = "is ed"  # "I am retired", but "I retired"
            words.append(_Word(stem, ending, word, is_one))
    if words and words[0].written in _THIRD_PERSONS:
        words.insert(0, _Word("i"))  # "Likes tea", as models take notes
    return words


@lru_cache(KNOWN_WORDS)
def _without_ending(word: str) -> tuple[str, str]:
    """The stem of a word, and the ending that was taken off."""
    if not word.isalpha() or not is_informative(word) or word in _LEADING:
        return ("have" if word == "has" else word), ""
    if word in _NUMBERS:
        return _NUMBERS[word], ""
    if "our" in word or "is" in word:
        for pattern, spelling in _AMERICAN:
            word = pattern.sub(spelling, word)
    for pattern, instead, ending in _ENDINGS.get(word[-1], ()):
        stem, found = pattern.subn(instead, word)
        if found and len(stem) >= MIN_STEM and not _VOWELS.isdisjoint(stem):
            return stem.removesuffix("e"), ending
    return word.removesuffix("e"), ""


_VOWELS = frozenset("aeiouy")
_ENDINGS = {
    "s": (
        (re.compile("ies$"), "y", "s"),
        (re.compile("(?<=ss|sh|ch|.x|.z|.o)es$"), "", "s"),
        (re.compile("(?<=[^sui])s$"), "", "s"),
    ),
    "g": (
        (re.compile(r"([bdgmnprt])\1ing$"), r"\1", "ing"),
        (re.compile("ing$"), "", "ing"),
    ),
    "d": (
        (re.compile("ied$"), "y", "ed"),
        (re.compile(r"([bdgmnprt])\1ed$"), r"\1", "ed"),
        (re.compile("(?<=[^e])ed$"), "", "ed"),
    ),
}
"""Endings of plurals and verbs by their last letter, with what replaces them and their names."""
_PAST = frozenset({"ed", "is ed"})


_THIRD_PERSONS = word_set(
    "likes loves enjoys prefers hates dislikes wants has owns lives works studies"
)
"""Verbs with which a note about the speaker begins."""


def _key_of(word: _Word) -> str:
    """A word as phrases have it: "like", "likes", but not "liked" or "liking"."""
    return word.stem + word.ending.removesuffix("s")


_PHRASES = {
    tuple(map(_key_of, _stemmed(phrase.split()))): (_stemmed(meaning.split()), meanings is _VERBS)
    for meanings in (_VERBS, _OTHERS)
    for meaning, phrases in meanings.items()
    for phrase in phrases.split("|")
}
"""The words of each phrase, with what is read instead and whether it has the sentence's verb."""
_LENGTHS = {
    first: sorted({len(words) for words in _PHRASES if words[0] == first}, reverse=True)
    for first, *_ in _PHRASES
}
"""The lengths of the phrases that begin with each word, longest first."""


def _with_known_meanings(words: Sequence[_Word]) -> tuple[list[_Word], bool]:
    """The words with known phrases replaced, and whether one of these has the verb."""
    keys = [_key_of(word) for word in words]
    found: list[_Word] = []
    has_known_verb = False
    at = 0
    while at < len(words):
        for length in _LENGTHS.get(keys[at], ()):
            if known := _PHRASES.get(tuple(keys[at : at + length])):
                meaning, has_verb = known
                found += meaning
                has_known_verb |= has_verb
                at += length
                break
        else:
            found.append(words[at])
            at += 1
    return found, has_known_verb


def _names_in(text: str) -> frozenset[str]:
    """The words that are written like names, except the first one."""
    _, *words = text.split()
    named = " ".join(word for word in words if word.lower() != word)
    return frozenset(bare_words(named)) - {"i"}


def _orders_agree(one: _Reading, other: _Reading, names: AbstractSet[str]) -> bool:
    """Whether the order of the parts makes no difference.

    Whoever says "I" does something to the rest, in whatever order it is told. Without that, the
    order says who does it to whom, except around an "is" between two that are both definite.
    """
    if one.parts == other.parts:
        return True
    named = [[w.written for w in reading.words if w.written in names] for reading in (one, other)]
    if named[0] != named[1]:
        return False
    if one.has_speaker:
        left = list(enumerate(one.parts))
        positions = []
        for part in other.parts:
            found = next(numbered for numbered in left if numbered[1] == part)
            left.remove(found)
            positions.append(found[0])
        moved = sum(following != position + 1 for position, following in pairwise(positions))
        return 1 + moved <= MAX_MOVED
    if not one.is_at or not other.is_at:
        return False
    sides = one.words[: one.is_at], one.words[one.is_at :]
    are_definite = all(
        not _DEFINITE.isdisjoint(first.leading) or all(word.written in names for word in side)
        for side, first in zip(sides, (one.parts[0], one.parts[one.is_at]), strict=True)
    )
    return are_definite and [*one.parts[one.is_at :], *one.parts[: one.is_at]] == other.parts


def _endings_agree(one: _Reading, other: _Reading, names: AbstractSet[str]) -> bool:
    """Whether the same words have endings that do not change what is said."""
    words, others = (
        sorted(zip(reading.parts, reading.words, strict=True)) for reading in (one, other)
    )
    have_known_verbs = one.has_known_verb and other.has_known_verb
    for (part, word), (_, another) in zip(words, others, strict=True):
        if word.written != another.written and not names.isdisjoint(
            (word.written, another.written)
        ):
            return False
        endings = {word.ending, another.ending}
        if endings == {"", "s"} and (word.is_one or another.is_one):
            return False  # "a horse", "horses"
        if len(endings) > 1 and not endings.isdisjoint(_PAST):
            # "I like dark roasted coffee", but not "the house where I lived"
            is_attribute = "" in endings and have_known_verbs and not part.leading
            if not is_attribute:
                return False
    return True
