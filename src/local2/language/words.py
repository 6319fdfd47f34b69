"""Split texts into words and stems, and distinguish informative words from others.

The stems are Porter's, as in the full-text index, so that both find the same. Some languages have
no spaces between words: Chinese, Japanese, Thai, Lao, and Korean before its endings. In a run of
such characters, each pair of neighbouring characters counts as a word. Stored texts also have each
character as a word, so that a question of a single character finds them.
"""

import re
import unicodedata
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import lru_cache

from Stemmer import Stemmer

UNSPACED = (
    "\u0e01-\u0eff"  # Thai, Lao
    "\u3005-\u3007\u3041-\u309f\u30a1-\u30fa\u30fc-\u30ff\u31f0-\u31ff\uff66-\uff9f"  # Japanese
    "\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff\U00020000-\U0003fffd"  # Chinese characters
    "\uac00-\ud7a3"  # Korean
)
"""Characters of languages without spaces, as ranges of a regular expression's set."""
RUN = re.compile(f"[{UNSPACED}]+")
"""A run of such characters."""

_RUNS = re.compile(f"([{UNSPACED}]+)")
"""Splits a word into the runs, at the odd indices, and the parts between them."""
_MARKS = re.compile("[\u0e31\u0e34-\u0e3a\u0e47-\u0e4e\u0eb1\u0eb4-\u0ebc\u0ec8-\u0ece]+")
"""Thai and Lao vowels and tones above and below letters, which are not letters themselves."""
_HIRAGANA = re.compile("[\u3041-\u309f]")
_GRAMMAR = re.compile(
    # who, what, when, where; I, you; the commonest particles
    "什[么麼]时候|什麼時候|为什么|為什麼|什[么麼]|怎[么麼]样?|怎樣|哪[个個里裡儿些种]?|多少|几[点个]?|幾[點個]?"
    "|[我你他她]们|[我你他她]們|[我你您他她它谁誰]|[这那這][个個]?|请问?|請問?|的|了|是|在|吗|嗎|呢|吧|和"
    "|何[時か]?|誰|私|僕|について|ください|でしょう|[でま]した|です|ます|ません|[てい]います|している|ている"
    "|いつ|どこ|どの|どれ|どう|なに|なん|だれ|[はがをにでのともへかやねよ]"
    "|무엇|언제|어디|누구|어떤|무슨|인가요|입니까|습니까|습니다|합니다|나요"
    "|(?<=[가-힣]{2})(?:에서|으로|[은는이가을를의에로도])$"
)

MAX_TERMS = 32
"""Maximum number of terms of a query, half from its beginning and half from its end: people ask
before or after what they paste."""
FEW_WORDS = 5
"""Number of different words with which a text has half of its density, so that one or two
informative words, however often they are repeated, do not have the highest density."""
PIECE = 20_000
"""Maximum number of characters, or of words to count, per call into C, during which no other thread
runs (decision 0017)."""
KNOWN_STEMS, LONGEST_KNOWN = 20_000, 32
"""Number of words whose stems are kept, up to so many characters each: texts consist of the same
words, and stemming one takes ten times as long."""
_WORD = re.compile(r"[^\W_]+")
_CLITIC = re.compile(r"(?<=\w)['\u2019](?:s|t|d|m|ll|re|ve)\b", re.IGNORECASE)
"""A possessive ending or a contracted verb, which is not a word of its own."""
_ACCENTS = re.compile("[\u0300-\u036f]+")
_MANY_MARKS = re.compile(r"([^\w\s]{30})[^\w\s]+")
"""More accents than any letter has. Normalising them takes quadratic time."""


def word_set(text: str) -> frozenset[str]:
    """The words of a list that is written as a text."""
    return frozenset(text.split())


STOP_WORDS = word_set(
    """
    a about am an and any are as at be because been being but by can could did do does
    doing for from get had has have having he her hers him his how i if in into is it its
    just me my no not of on or our ours say says she should so some such than that the
    their them then there these they this those to too us very was we were what when where
    which who whom whose why will with would you your yours
    across conversation conversations discuss discussed discussion discussions ever mention
    mentioned please recall remember remind said talked tell throughout told
    """
)

LEADING_MARKS, TRAILING_MARKS = "'\"(“«¡¿", ".,!?;:'\")”»…"
"""Punctuation before and after a word that does not change its meaning."""


def pairs(run: str) -> list[str]:
    """All pairs of neighbouring characters; a single character is returned as it is."""
    return [run[at : at + 2] for at in range(len(run) - 1)] or [run]


def characters_and_pairs(run: str) -> list[str]:
    return [*run, *pairs(run)] if len(run) > 1 else [run]


def informative_pairs(run: str) -> list[str]:
    """The pairs of a run without words of grammar, and single characters between these."""
    found = [pair for between in _GRAMMAR.split(run) if between for pair in pairs(between)]
    return [pair for pair in found if len(pair) > 1 or not _HIRAGANA.match(pair)]


def terms(text: str) -> list[str]:
    """At most MAX_TERMS informative words of a text."""
    found = informative_words(text)
    if len(found) <= MAX_TERMS:
        return found
    return found[: MAX_TERMS // 2] + found[-MAX_TERMS // 2 :]


def informative_words(text: str) -> list[str]:
    """The words that show what a text is about, each once and without stop words."""
    return [
        word for word in dict.fromkeys(words(text, informative_pairs)) if word not in STOP_WORDS
    ]


def informative_stems(text: str) -> frozenset[str]:
    return frozenset(stems(informative_words(text)))


def is_informative(word: str) -> bool:
    """Whether a lower-case word shows what a text is about."""
    return word not in STOP_WORDS


def words(text: str, of_run: Callable[[str], list[str]] = pairs) -> list[str]:
    """The words of a text in order, in lower case and without clitics.

    `of_run`: splits a run of characters without spaces into words.
    """
    if len(text) <= PIECE:
        return _words(text, of_run) if text else []
    return [word for piece in pieces(text) for word in _words(piece, of_run)]


def bare_words(text: str) -> tuple[str, ...]:
    """The words without capitals and the punctuation around them.

    Signs that are part of a word stay (C++, -5), so texts with the same bare words mean the same.
    """
    words_ = text.casefold().split()
    # A list is built in half the time of a generator's items.
    return tuple(
        [
            word if word.isalnum() else word.lstrip(LEADING_MARKS).rstrip(TRAILING_MARKS)
            for word in words_
        ]
    )


def pieces(text: str, size: int = PIECE) -> Iterator[str]:
    """Yield a text in pieces of at most `size` characters, which end between words if possible."""
    begin = 0
    while len(text) - begin > size:
        last = max(text.rfind(between, begin, begin + size) for between in " \n")
        end = last + 1 or begin + size
        yield text[begin:end]
        begin = end
    yield text[begin:]


def _words(text: str, of_run: Callable[[str], list[str]]) -> list[str]:
    has_runs = not text.isascii() and RUN.search(text) is not None
    text = composed(_MARKS.sub("", text) if has_runs else text)
    if "'" in text or "\u2019" in text:
        text = _CLITIC.sub("", text)
    found: list[str] = _WORD.findall(text)
    # Lower case comes last: "\u0130" becomes two characters, the second of which ends a word.
    lower = " ".join(found).lower().split(" ") if found else found
    if not has_runs:
        return lower
    parts = ((at, part) for word in lower for at, part in enumerate(_RUNS.split(word)) if part)
    return [split for at, part in parts for split in (of_run(part) if at % 2 else (part,))]


def composed(text: str) -> str:
    """The text with accents composed into letters: a separate accent would end a word."""
    return text if text.isascii() else unicodedata.normalize("NFC", _MANY_MARKS.sub(r"\1", text))


def stems(words_: Iterable[str], stemmer_name: str = "porter") -> list[str]:
    """The stem of each word, without accents."""
    return [
        _known_stem(word, stemmer_name) if len(word) <= LONGEST_KNOWN else _stem(word, stemmer_name)
        for word in words_
    ]


def stems_of_guesses(words_: Iterable[str]) -> list[str]:
    """The same for many words at once, hardly any of which is ever asked for again."""
    stemmed: list[str] = Stemmer("porter", 0).stemWords(list(words_))
    return stemmed


def _stem(word: str, stemmer_name: str) -> str:
    if not word.isascii():
        word = _ACCENTS.sub("", unicodedata.normalize("NFD", word))
    # A stemmer must not be shared by threads, and creating one costs almost nothing.
    stem: str = Stemmer(stemmer_name, 0).stemWord(word)
    return stem


_known_stem = lru_cache(KNOWN_STEMS)(_stem)


def density(words_: Sequence[str]) -> float:
    """The fraction of informative words, which is lower for a text of few different words."""
    informative = [word for word in words_ if word not in STOP_WORDS and len(word) > 1]
    different = len(set(words_))
    return len(informative) / max(len(words_), 1) * different / (different + FEW_WORDS)
