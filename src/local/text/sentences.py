"""Sentences: where they end, and whether they ask or tell, by their form alone."""

import re
from collections.abc import Iterator

_ENDS = ".!?\u2026\u3002\uff01\uff1f\u061f"
_QUESTION_MARKS = ("?", "\uff1f", "\u061f")

_SENTENCE = re.compile(rf"[^{_ENDS}\n]+[{_ENDS}]*")
_SOMETHING = re.compile(r"\w\w")
_DECORATION = " \t\"'*#>-\u2013\u2014\u201c\u201d"
_CLOSING = " \"'*_)\u201d\u2019\u00bb"
_ASKING = (
    "what|when|where|who|whom|whose|which|why|how|do|does|did|is|are|was|were|am|can|could|would"
    "|will|should|shall|may|has|have|had"
)
_ASKS_BACK = re.compile(rf"\W*(?:{_ASKING}|tell me|remind me)\b", re.IGNORECASE)
_SAVING = re.compile(r"\b(?:remember|note|save|mind|forget)\b[:,]? that\b", re.IGNORECASE)
"""Politely requested, and yet a statement: "Could you remember that …?"."""
_WANTS = re.compile(
    rf"(?:please\s+)?(?:{_ASKING}|might|any|isn|aren|don|didn|doesn|tell|show|give|list|find|remind"
    r"|summari[sz]e|search|recall|remember|look\s+up|describe|explain|mention|name)\b",
    re.IGNORECASE,
)
_SUBJECT = re.compile(r"\b(?:i|we|let['\u2019]s)\b", re.IGNORECASE)


def sentences(text: str) -> list[str]:
    """The sentences with at least one word of two letters, each with its closing marks."""
    return [found.strip() for found in _SENTENCE.findall(text) if _SOMETHING.search(found)]


def split_lazily(separator: re.Pattern[str], text: str) -> Iterator[str]:
    """Split a text piece by piece, because of a long text the first pieces may be enough."""
    begin = 0
    for between in separator.finditer(text):
        yield text[begin : between.start()]
        begin = between.end()
    yield text[begin:]


def is_question(sentence: str) -> bool:
    return sentence.rstrip(_CLOSING).endswith(_QUESTION_MARKS)


def asks(sentence: str) -> bool:
    """Whether a sentence wants an answer and states nothing."""
    if _SAVING.search(sentence):
        return False
    return is_question(sentence) or _ASKS_BACK.match(sentence) is not None


def telling(text: str) -> float:
    """Which share of a text's sentences state something, from 0 to 1.

    A question to a memory, or a few keywords, state nothing. A turn that continues a conversation
    states what happened before it asks.
    """
    every = [sentence.strip(_DECORATION) for sentence in sentences(text)]
    if not every or (len(every) == 1 and not _SUBJECT.search(text)):
        return 0.0
    tells = [s for s in every if not is_question(s) and not _WANTS.match(s)]
    return len(tells) / len(every)


def excerpt(text: str, most: int) -> str:
    """The text in one line; of a longer one so many characters at most, up to a whole word."""
    one = " ".join(text.split())
    return one if len(one) <= most else f"{one[:most].rpartition(' ')[0] or one[:most]} …"
