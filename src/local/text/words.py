"""Words and their stems: what a question is about, and which texts contain a form of its words.

The stems are Porter's, as in the full-text index, so that both find the same. Some texts have no
spaces between words: Chinese, Japanese, Thai, and Korean before its endings. There the end of a
word is not known, so two neighbouring characters stand for a word. In the index each character
stands for itself, too, so that a question of a single character finds it.
"""

import re
import unicodedata
from collections.abc import Callable, Iterable, Iterator, Sequence

from Stemmer import Stemmer

UNSPACED = (
    "\u0e01-\u0eff"  # Thai, Lao
    "\u3005-\u3007\u3041-\u309f\u30a1-\u30fa\u30fc-\u30ff\u31f0-\u31ff\uff66-\uff9f"  # Japanese
    "\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff\U00020000-\U0003fffd"  # Chinese characters
    "\uac00-\ud7a3"  # Korean
)
"""As in the sets of a regular expression."""
RUN = re.compile(f"[{UNSPACED}]+")

_PARTS = re.compile(f"([{UNSPACED}]+)")
_MARKS = re.compile("[\u0e31\u0e34-\u0e3a\u0e47-\u0e4e\u0eb1\u0eb4-\u0ebc\u0ec8-\u0ece]+")
"""Vowels and tones above and below letters, which are no letters themselves."""
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
"""Terms of a query, half of them from its beginning and half from its end: people ask before what
they paste, or after it."""
FEW_WORDS = 5
"""Words added to the length by which density is divided, so that a text of one or two informative
words is not the densest of all."""
PIECE = 20_000
"""Characters, or words to be stemmed, of one call into C, during which no other thread runs
(decision 0033)."""
_WORD = re.compile(r"[^\W_]+")
_CLITIC = re.compile(r"(?<=\w)['\u2019](?:s|t|d|m|ll|re|ve)\b", re.IGNORECASE)
"""What is no word of its own: a possessive, or the rest of a verb."""
_ACCENTS = re.compile("[\u0300-\u036f]+")
_MANY_MARKS = re.compile(r"([^\w\s]{30})[^\w\s]+")
"""More accents than any letter has. Bringing them into order takes time that grows with the square
of their number."""
_STOP_WORDS = frozenset(
    re.findall(
        r"\w+",
        """
    a about am an and any are as at be because been being but by can could did do does
    doing for from get had has have having he her hers him his how i if in into is it its
    just me my no not of on or our ours say says she should so some such than that the
    their them then there these they this those to too us very was we were what when where
    which who whom whose why will with would you your yours
    across conversation conversations discuss discussed discussion discussions ever mention
    mentioned please recall remember remind said talked tell throughout told
    """,
    )
)

BEFORE, BEHIND = "'\"(“«¡¿", ".,!?;:'\")”»…"
"""What a word may have before and behind it without a change of meaning."""


def without_marks(text: str) -> str:
    """Return the text with nothing but letters in its runs."""
    return _MARKS.sub("", text)


def parts(word: str) -> list[str]:
    """Split a text into runs, in the odd places, and what stands between them."""
    return _PARTS.split(word)


def pairs(run: str) -> list[str]:
    """Return each two neighbouring characters; a single one is itself."""
    return [run[at : at + 2] for at in range(len(run) - 1)] or [run]


def characters_and_pairs(run: str) -> list[str]:
    return [*run, *pairs(run)] if len(run) > 1 else [run]


def informative_pairs(run: str) -> list[str]:
    """Return the pairs between words of grammar, and single characters that stand alone there."""
    found = [pair for between in _GRAMMAR.split(run) if between for pair in pairs(between)]
    return [pair for pair in found if len(pair) > 1 or not _HIRAGANA.match(pair)]


def terms(text: str) -> list[str]:
    """Return the informative words of a text, at most MAX_TERMS."""
    found = informative_words(text)
    if len(found) <= MAX_TERMS:
        return found
    return found[: MAX_TERMS // 2] + found[-MAX_TERMS // 2 :]


def informative_words(text: str) -> list[str]:
    """Return the words that show what a text is about: no stop words, each once."""
    return [word for word in dict.fromkeys(words(text, informative_pairs)) if is_informative(word)]


def is_informative(word: str) -> bool:
    """Return whether a word in lower case shows what a text is about."""
    return word not in _STOP_WORDS


def words(text: str, of_run: Callable[[str], list[str]] = pairs) -> list[str]:
    """Return the words of a text in their order, in lower case and without clitics.

    `of_run` makes words of a run of characters without spaces.
    """
    if len(text) <= PIECE:
        return _words(text, of_run) if text else []
    return [word for piece in pieces(text) for word in _words(piece, of_run)]


def bare_words(text: str) -> tuple[str, ...]:
    """Return the words as they stand, whatever their capitals and the punctuation around them.

    Signs that are part of a word stay, as in C++ or -5: texts of the same bare words mean the same.
    """
    return tuple(word.lstrip(BEFORE).rstrip(BEHIND) for word in text.casefold().split())


def pieces(text: str) -> Iterator[str]:
    """Yield a text in pieces, which end between words if there are spaces or line breaks."""
    begin = 0
    while len(text) - begin > PIECE:
        last = max(text.rfind(between, begin, begin + PIECE) for between in " \n")
        end = last + 1 or begin + PIECE
        yield text[begin:end]
        begin = end
    yield text[begin:]


def _words(text: str, of_run: Callable[[str], list[str]]) -> list[str]:
    has_runs = not text.isascii() and RUN.search(text) is not None
    text = composed(without_marks(text) if has_runs else text)
    if "'" in text or "\u2019" in text:
        text = _CLITIC.sub("", text)
    found: list[str] = _WORD.findall(text)
    # Lower case comes last: "\u0130" becomes two characters, of which the second is not in a word.
    lower = " ".join(found).lower().split(" ") if found else found
    return [part for word in lower for part in _parts(word, of_run)] if has_runs else lower


def _parts(word: str, of_run: Callable[[str], list[str]]) -> Iterator[str]:
    for at, part in enumerate(parts(word)):
        if part:
            yield from of_run(part) if at % 2 else (part,)


def composed(text: str) -> str:
    """Return the text with one character a letter, because a separate accent would end the word."""
    return text if text.isascii() else unicodedata.normalize("NFC", _MANY_MARKS.sub(r"\1", text))


def stems(words_: Iterable[str]) -> list[str]:
    """Return the stem of each word, without accents.

    A stemmer must not be shared by threads. Making one costs next to nothing.
    """
    stemmer, every = Stemmer("porter", 0), list(words_)
    found: list[str] = []
    for begin in range(0, len(every), PIECE):
        piece = every[begin : begin + PIECE]
        if not all(map(str.isascii, piece)):
            piece = [_plain(word) for word in piece]
        found += stemmer.stemWords(piece)
    return found


def _plain(word: str) -> str:
    return word if word.isascii() else _ACCENTS.sub("", unicodedata.normalize("NFD", word))


def density(words_: Sequence[str]) -> float:
    """Return the share of words that show what a text is about, lower for a text of few words."""
    informative = [word for word in words_ if word not in _STOP_WORDS and len(word) > 1]
    return len(informative) / (len(words_) + FEW_WORDS)
