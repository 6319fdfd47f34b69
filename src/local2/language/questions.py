"""Tell questions and requests from statements."""

import re

from local2.language.sentences import sentences

_DECORATION = " \t\"'*#>-\u2013\u2014\u201c\u201d"
_CLOSING = " \"'*_)\u201d\u2019\u00bb"
_QUESTION_MARKS = ("?", "\uff1f", "\u061f")
QUESTION_WORDS = (
    "what|when|where|who|whom|whose|which|why|how|do|does|did|is|are|was|were|am|can|could|would"
    "|will|should|shall|may|has|have|had"
)
_ASKS = re.compile(rf"\W*(?:{QUESTION_WORDS}|tell me|remind me)\b", re.IGNORECASE)
_SAVING = re.compile(r"\b(?:remember|note|save|mind|forget)\b[:,]? that\b", re.IGNORECASE)
"""A polite request that states something: "Could you remember that …?"."""
_WANTS = re.compile(
    rf"(?:please\s+)?(?:{QUESTION_WORDS}|might|any|isn|aren|don|didn|doesn|tell|show|give|list|find|remind"
    r"|summari[sz]e|search|recall|remember|look\s+up|describe|explain|mention|name)\b",
    re.IGNORECASE,
)
_SUBJECT = re.compile(r"\b(?:i|we|let['\u2019]s)\b", re.IGNORECASE)
FIRST_PERSON = frozenset({"i", "my", "me", "mine", "myself", "we", "our", "ours", "us"})
SECOND_PERSON = frozenset({"you", "your", "yours", "yourself"})
PAST = frozenset({"did", "didn", "was", "wasn", "were", "weren", "had", "hadn"})
"""Verbs of a question about the past."""
ASKS_WHEN = re.compile(
    r"\bwhen\b|\b(?:what|which)\s+(?:date|day|month|year|time)\b"
    r"|\bhow\s+(?:long|many\s+(?:days|weeks|months|years))\b",
    re.IGNORECASE,
)


def is_question(sentence: str) -> bool:
    return sentence.rstrip(_CLOSING).endswith(_QUESTION_MARKS)


def asks(sentence: str) -> bool:
    """Whether a sentence asks something and states nothing."""
    may_ask = is_question(sentence) or _ASKS.match(sentence) is not None
    return may_ask and _SAVING.search(sentence) is None


def asking(text: str) -> float:
    """The fraction of a text's sentences that ask, by their closing marks: in any language."""
    found = sentences(text)
    return sum(map(is_question, found)) / max(len(found), 1)


def without_questions(text: str) -> str:
    """The sentences of a text that ask nothing."""
    return " ".join(sentence for sentence in sentences(text) if not asks(sentence))


def stating(text: str) -> float:
    """The fraction of a text's sentences that state something, from 0 to 1.

    Questions to a memory and mere keywords state nothing. A turn that continues a conversation
    states what happened before it asks.
    """
    found = [sentence.strip(_DECORATION) for sentence in sentences(text)]
    if not found or (len(found) == 1 and not _SUBJECT.search(text)):
        return 0.0
    statements = [s for s in found if not is_question(s) and not _WANTS.match(s)]
    return len(statements) / len(found)
