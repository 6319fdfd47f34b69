"""Forms in which people state things, and what kind of memory each is."""

import re
from typing import NamedTuple

from local.memory.extraction.items import Durability, MemoryType

MONTH = (
    r"(?:jan(?:uary)?|feb(?:ruary)?|(?-i:March|May)|apr(?:il)?|june?|july?|aug(?:ust)?"
    r"|sept?(?:ember)?|oct(?:ober)?|nov(?:ember)?|dec(?:ember)?)"
)
WEEKDAY = r"(?:mon|tues|wednes|thurs|fri|satur|sun)day"
PERIOD = r"(?:night|weekend|week|month|year|spring|summer|autumn|fall|winter|semester|quarter)"
DATE = rf"(?:\d{{4}}-\d\d?-\d\d?|\d\d?/\d\d?(?:/\d{{2,4}})?|{MONTH}\b|(?:19|20)\d\d\b|\d\d?(?:st|nd|rd|th)\b)"
COMING = (
    rf"\b(?:tomorrow|tonight|today|(?:next|this|coming) (?:{PERIOD}|{WEEKDAY})|{WEEKDAY}|{DATE}"
    r"|in (?:\d{1,2}|an?|two|three|four|five|six|a few|a couple of) (?:day|week|month|year)s?"
    r"|(?:the )?end of (?:the )?\w+|q[1-4])\b"
)
GONE = (
    rf"\b(?:yesterday|last (?:{PERIOD}|{WEEKDAY})|this (?:morning|afternoon|evening|{PERIOD})|{DATE}"
    rf"|(?:\w+ ){{1,3}}ago|when i was \w+|as a (?:child|kid|teenager)|on {WEEKDAY}"
    r"|the other day|recently|over the (?:weekend|holidays|summer)|today|earlier)\b"
)
NAME = r"(?-i:[A-Z][\w'.-]+(?: (?:[A-Z][\w'-]+|de|von|van|del|la|al)){0,3}(?<![.']))"
BE = r"(?:'s|is|are)"
ADVERBS = (
    r"(?:(?:really|absolutely|also|do|just|totally|truly|quite|personally|generally|usually"
    r"|actually|always|still|particularly|especially|finally|recently|already|currently|mostly"
    r"|mainly|never|often|sometimes|normally|typically|have|now|both) )*"
)
REWORDED = re.compile(r"favorite", re.IGNORECASE)
MOST_TOPIC_CHARACTERS = 40


class Form(NamedTuple):
    """A form, and what is stated in it.

    `topic` may name groups of the pattern. `negative`: the form holds with a "not" in it.
    `v` is the value, from which a correction ("actually it's …") goes on.
    """

    memory_type: MemoryType
    pattern: re.Pattern[str]
    topic: str | None = None
    importance: float = 0.6
    durability: Durability = "standard"
    confidence: float = 0.9
    negative: bool = False
    answers: str | None = None


def form(memory_type: MemoryType, pattern: str, topic: str | None = None, **rest: object) -> Form:
    return Form(memory_type, re.compile(pattern, re.IGNORECASE), topic, **rest)  # type: ignore[arg-type]


def topic_of(form_: Form, found: re.Match[str]) -> str | None:
    """The key of what is stated, None where others may stand beside it."""
    if form_.topic is None:
        return None
    groups = {name: _word(text) for name, text in found.groupdict().items() if text}
    try:
        topic = form_.topic.format(**groups)
    except KeyError:  # a group that this statement does not have
        return None
    return topic if len(topic) <= MOST_TOPIC_CHARACTERS else None


def _word(text: str) -> str:
    """The text as one word of a key."""
    british = REWORDED.sub("favourite", text)
    return re.sub(r"[\W_]+", "_", british.lower()).strip("_")
