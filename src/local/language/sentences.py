"""Cut texts into sentences, and to a length."""

import re
from collections.abc import Iterator

_ENDS = ".!?\u2026\u3002\uff01\uff1f\u061f"
_QUESTION_MARKS = ("?", "\uff1f", "\u061f")

_SENTENCE = re.compile(rf"[^{_ENDS}\n]+[{_ENDS}]*")
_SOMETHING = re.compile(r"\w\w")
_ABBREVIATED = ("Dr", "Mr", "Ms", "St", "Co", "Jr", "Sr", "No", "Mrs", "Inc", "Ltd", "[A-Z]")
BREAK = re.compile(
    "(?<=[.!?…;])" + "".join(rf"(?<!\b{each}\.)" for each in _ABBREVIATED) + r"\s+|\n+"
)


def sentences(text: str) -> list[str]:
    """Return the sentences that have a word of two letters or more, with their closing marks."""
    return [found.strip() for found in _SENTENCE.findall(text) if _SOMETHING.search(found)]


def split_lazily(separator: re.Pattern[str], text: str) -> Iterator[str]:
    """Split a text piece by piece, for callers that need only the first pieces of a long text."""
    begin = 0
    for between in separator.finditer(text):
        yield text[begin : between.start()]
        begin = between.end()
    yield text[begin:]


def excerpt(text: str, limit: int) -> str:
    """Return the text in one line, cut after a whole word to at most `limit` characters."""
    line = " ".join(text.split())
    if len(line) <= limit:
        return line
    return f"{line[:limit].rpartition(' ')[0] or line[:limit]} …"
