"""What somebody states in a message, clause by clause, without code, quotations and pasted texts."""

import re
from collections.abc import Iterator

from local.text.sentences import split_lazily

MESSAGE_CHARACTERS = 2_000
"""Characters of a message that are read. A longer one is mostly pasted, and says first what for."""
LONGEST = 240
"""Characters of a sentence that is read; a longer one is prose, and slow to match."""

_CODE = re.compile(r"```.*?(?:```|\Z)", re.DOTALL)
_NO_PROSE = re.compile(r"\s*[>|#]|.*[{}<>=\\]|.*\w\(|\s*(?:import|def|class|return|SELECT)\b")
_MARKS = re.compile(r"`|\*\*|__|(?<!\w)[*_]|[*_](?!\w)|^\s*(?:[-*\u2022]|\d{1,2}[.)])\s+")
_STRAIGHT = str.maketrans("\u2019\u2018\u201c\u201d\u00a0", "''\"\" ")
_INTRODUCES = re.compile(
    r"[^\n]*\b(?:translat\w+|summari[sz]e|rewrite|rephrase|paraphrase|proofread|correct|edit|improve"
    r"|review|analy[sz]e|classify|grammar|following|below|example|sample|quote|lyrics|transcript"
    r"|text|sentence|paragraph|e-?mail|letter|essay|article|story|poem|dialogue|script|prompt"
    r"|context|input|output|message|bio|resume|cv)\b[^\n:]{0,80}(?::|$)\s",
    re.IGNORECASE,
)
_LETTER = re.compile(r"^\s*(?:dear|subject:|to whom)\b", re.IGNORECASE)
_PLAYS = re.compile(
    r"\b(?:act(?:ing)? as|pretend|role-?play|imagine|you are (?:an?|the)|you're (?:an?|the)"
    r"|you will (?:act|be)|play the (?:role|part))\b",
    re.IGNORECASE,
)
"""Whoever asks for a part to be played speaks for somebody else from there on."""
_ENDS = re.compile(
    r"(?<=[.!?\u2026])(?<!\b[DMS][rst]\.)(?<!\bMrs\.)(?<!\be\.g\.)(?<!\bi\.e\.)(?<!\bvs\.)"
    r"(?<!\b[A-Z]\.)[\"')]*\s+|;\s+|\s+[\u2013\u2014-]\s+"
)
_CLAUSES = re.compile(
    r",?\s+(?:and|but|so|plus|although|though)\s+(?=(?:i|my|we|our)\b)"
    r"|,\s+(?=(?:i|my|we|our|it's|he|she|they)\b)",
    re.IGNORECASE,
)
_LEAD_IN = re.compile(
    r"(?:(?:and|but|so|well|ok(?:ay)?|oh|also|actually|honestly|basically|anyway|yes|yeah|yep|no"
    r"|hi|hello|hey(?: there)?|by the way|btw|fyi|just so you know|for (?:your|the) (?:info\w*|record)"
    r"|as (?:you know|i said|mentioned)|(?:please )?(?:remember|note|know)(?: that)?|of course"
    r"|good (?:morning|evening|afternoon)|sorry|correction|update|alright|right|great|thanks)\b"
    r"[\s,.:!-]*)+",
    re.IGNORECASE,
)
_AFTER_LEAD_IN = re.compile(r"(?:remember|note|know) that\b", re.IGNORECASE)


def sentences_of(content: str) -> Iterator[str]:
    """The sentences in somebody's own words, in their order, up to where a pasted text begins."""
    prose = _CODE.sub(" ", content[:MESSAGE_CHARACTERS]).translate(_STRAIGHT)
    if len(content) > MESSAGE_CHARACTERS:
        prose = prose.rpartition(" ")[0]
    for line in prose.splitlines():
        if _LETTER.match(line) or _PLAYS.search(line[:LONGEST]):
            return
        if not _NO_PROSE.match(line):
            yield from _own(line)
        if _INTRODUCES.match(f"{line} "):
            return


def _own(line: str) -> Iterator[str]:
    """The sentences of a line, without those that are quoted and what an introduction introduces."""
    quoting = False
    for sentence in split_lazily(_ENDS, _MARKS.sub("", line).strip()):
        within, quoting = quoting, quoting != (sentence.count('"') % 2 == 1)
        introduction = _INTRODUCES.match(sentence)
        if not (within or quoting or introduction) and 0 < len(sentence) <= LONGEST:
            yield sentence.strip()


def clauses_of(sentence: str) -> list[str]:
    """What a sentence says one after the other, each with a subject of its own."""
    return [clause for part in _CLAUSES.split(sentence) if (clause := part.strip(" ,."))]


def without_lead_in(sentence: str) -> str:
    """The sentence without "Hi", "by the way" and the like at its beginning."""
    found = _LEAD_IN.match(sentence)
    return sentence[found.end() :] if found else sentence
