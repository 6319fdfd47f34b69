"""Read what a person writes to a chat that answers by rules: what to save, look up or call."""

import re
from collections.abc import Iterator
from typing import Literal, NamedTuple

from local2.keys import is_topic
from local2.language.attributes import filled
from local2.language.questions import FIRST_PERSON
from local2.language.statements import MIN_WORDS
from local2.language.tables import ENGLISH
from local2.language.words import words

THING = r"(?P<thing>\w+(?:[ '-]\w+){0,3}?)"
VALUE = r"(?P<value>\S.*)"
IS = r"(?:is|are)(?: now)?(?: (?:called|named))?"
PROJECT = r"(?:the|our|my|this) project(?:'s)?"

OWN = "user.{thing}"
"""The topic of a thing of the user's, unless extraction has a key for it ("user.home" for a city):
then one statement, saved and extracted, has one key, and a later one replaces it."""
STATED = (  # the pattern of a clause to save, and its topic
    (rf"call me (?-i:(?![a-z])){VALUE}", "user.name"),  # not "call me tomorrow"
    (rf"(?:i(?:'m| am) called|my name(?:'s| {IS})) {VALUE}", "user.name"),
    (rf"my (?:preferred|favou?rite) {THING} {IS} {VALUE}", "user.{thing}_preference"),
    (rf"{PROJECT} {THING} {IS} {VALUE}", "project.{thing}"),
    (rf"my {THING} {IS} {VALUE}", OWN),
    (r"(?P<value>(?:never|always|avoid|don't|do not) (?P<thing>\S+(?: \S+){0,3}).*)",
     "constraint.{thing}"),
)  # fmt: skip

SEARCHED = (  # patterns of questions about the past, with what to search for
    r"\b(?:remember|recall|know|say|said|tell|told|talk(?:ed)?)\b.*? about (?P<query>.+)",
    r"\bsearch\b.*? for (?P<query>.+)",
    r"\b(?:wei(?:ß|ss)t du|erzähl\w* mir|sag\w* mir)\b.*? (?:über|von) (?P<query>.+)",
)

EVERYTHING = (
    r"what (?:do you (?:know|remember|recall)|have i told you|did i tell you)"
    r"(?: so far| already)?\W*$"
    r"|was wei(?:ß|ss)t du(?: (?:alles|schon|noch|so))*(?: (?:über mich|von mir))?\W*$"
)
"""A question about nothing in particular, which is about the user."""
NAMES_A_TOOL = r"(?:please )?(?:call|use|run) (?:the tool )?(?P<tool>[a-z0-9_-]+)[.!]?"
WANTS_HELP = (
    r"(?:(?:hi|hello|hey|good (?:morning|afternoon|evening|day))(?: there)?|help"
    r"|(?:who|what) are you|what(?:['\u2019]?s| is) your name|what can you do"
    r"|(?:please )?remember(?: that| this| it)?"
    r"|hallo|moin|servus|guten (?:morgen|tag|abend)|hilfe|wer bist du|was kannst du"
    r"|wie hei(?:ß|ss)t du|merk dir (?:das|es))[.!?]*$"
)
WANTS_TO_FORGET = (
    r"(?:please )?(?:forget|erase|delete)\b|(?:bitte )?(?:vergiss (?!(?:bitte )?nicht)|lösche?\b)"
    r"|(?:.*[,.;:!?]\s+|.*\b(?:but|please) )?(?:don['\u2019]?t|do not|never)"
    r" (?:store|save|remember|keep|record) (?:this|that|it)\b\W*$"
)
THANKS = (
    r"(?:(?:ok|okay|great|cool|perfect|many),? )?(?:thanks|thank you|thx|cheers)(?: \w+){0,2}\W*$"
    r"|(?:(?:vielen|herzlichen|besten|schönen|ok|okay|super),? )?(?:danke|dank)(?: \w+){0,2}\W*$"
)
WISHES: tuple[tuple[str, "Wish"], ...] = (
    (WANTS_HELP, "help"),
    (WANTS_TO_FORGET, "forget"),
    (THANKS, "thanks"),
)
"""Patterns of the beginnings of messages that need no tool."""
NODS = frozenset({"i see", "i know", "i understand", "i agree", "my bad", "my mistake"})
"""Nods that speak of the speaker, and say nothing about him or her."""
SAVES_UNASKED = "user.name"
ASKS_TO_SAVE = (
    r"(?:^|[.,;:!?]|\b(?:please|and|(?:can|could|will|would) you|i (?:want|need) you to))\s*"
    r"(?:please )?(?:also )?"
    r"(?:remember|memori[sz]e|save|store|note(?: down)?|keep in mind|(?:don't|do not) forget"
    r"|remind me(?: \w+)? to)\b"
    r"(?: (?:that|this|it)\b)?(?:,? please)?[:,]?\s*"
)
POLITE_REQUEST = r"^(?>.*?\b(?:can|could|will|would) you\b).* (?:that|me to|me \w+ to) "
"""A request to save that ends with a question mark, but is not a question. The group is atomic, so
that a line with many such beginnings is scanned once."""
QUESTION = (
    r"(?:what|which|who|whose|when|where|why|how)(?:['\u2019]?(?:s|re|d))?\b"
    r"|(?:do|does|did|is|are|was|were|am|can|could|should|will|would|have|has)"
    r" (?:i|you|we|he|she|it|they|my|our|your|his|her|their|there|any\w*)\b"
    r"|does (?!not\b)\w|(?:did|is|are|was|were|has|have) (?-i:[A-Z])\w"
    r"|(?:tell me|remind me|recall|search)\b|.*\?$"
    r"|(?:wer|wen|wem|wann|wo|wohin|woher|warum|wieso|weshalb|welche[rsnm]?)\b"
    r"|was \w+ (?:ich|wir|mein\w*|unser\w*)\b|(?:erzähl\w*|sag\w*|zeig\w*) mir\b"
    r"|wie (?:heiß\w+|war|ist|sind|alt|viele?|oft|lange?|groß|weit|hoch|spät)\b"
)
"""People who type to a machine leave out question marks and apostrophes: "whos my boss"."""
FILLER = r"^(?:(?:please|and|also|so|well|ok|okay|actually|hi|hello|hey|that)\b[\s,.:!]*)+"
# A sentence ends after a word of three letters or more, not after "Dr." or "e.g.".
BETWEEN_CLAUSES = (
    r"\n+|(?<=\w{3}[.!?])\s+"
    r"|,? and (?=(?:my|i|our|the project|call me|what|which|who|when|where|how)\b)"
)
MAX_CLAUSE = 300
"""Maximum number of characters in a clause; a longer one is prose, and would be slow to match."""
ANY_CASE = re.IGNORECASE

Wish = Literal["help", "forget", "thanks"]


class Fact(NamedTuple):
    """What to save under a key."""

    topic: str
    content: str


class Note(NamedTuple):
    """What to save without a key."""

    content: str


class Lookup(NamedTuple):
    """What to look up; `is_broad`: everything about it."""

    query: str
    is_broad: bool


def wish_of(text: str) -> Wish | None:
    """What a message wants that needs no tool."""
    return next(
        (wish for pattern, wish in WISHES if re.match(pattern, text.strip(), ANY_CASE)), None
    )


def is_nod(text: str) -> bool:
    """Whether a message has fewer words than a statement, and says nothing about the speaker."""
    found = words(text)
    about_speaker = not FIRST_PERSON.isdisjoint(found) and " ".join(found) not in NODS
    return len(found) < MIN_WORDS and not about_speaker


def named_tool(text: str) -> str | None:
    """The tool that a message asks to call."""
    named = re.fullmatch(NAMES_A_TOOL, text.strip(), ANY_CASE)
    return named["tool"] if named else None


def is_asked(text: str) -> bool:
    """Whether a text begins as a question, with or without its mark, and states nothing to save."""
    asks = re.match(QUESTION, text, ANY_CASE) is not None
    return asks and re.match(ASKS_TO_SAVE, text, ANY_CASE) is None


def requests_in(text: str) -> Iterator[Fact | Lookup | Note]:
    """Yield what a message asks to save and to look up, nothing for mere conversation."""
    without_topic = []
    rest, requests = re.subn(ASKS_TO_SAVE, "\n", text.replace("\u2019", "'"), flags=ANY_CASE)
    if requests and re.search(POLITE_REQUEST, text, ANY_CASE | re.MULTILINE):
        rest = rest.rstrip("? ")
    parts = re.split(BETWEEN_CLAUSES, rest, flags=ANY_CASE)
    for part in filter(str.strip, parts):
        clause = re.sub(FILLER, "", part.strip(), flags=ANY_CASE)
        fact = _fact(clause)
        if fact and (requests or fact.topic == SAVES_UNASKED):
            yield fact
        elif is_asked(clause):
            yield _lookup(clause)
        elif re.search(r"\w", clause):
            without_topic.append(clause)
    if requests and without_topic:
        yield Note(" ".join(without_topic))


def _fact(clause: str) -> Fact | None:
    if len(clause) > MAX_CLAUSE:
        return None
    for pattern, template in STATED:
        if found := re.fullmatch(pattern, clause, ANY_CASE):
            topic, content = template, found["value"].strip(" ,;:.!?\"'“”")
            if "{thing}" in template:
                owned = found["thing"].lower().replace("'s ", ".")  # "my wife's name"
                thing = re.sub(r"[^\w.]+", "_", owned).strip("_")
                known = ENGLISH.nouns.get(thing) if template == OWN else None
                topic = filled((known and known.topic) or template, {"thing": thing}) or template
            return Fact(topic, content) if is_topic(topic) and content else None
    return None


def _lookup(question: str) -> Lookup:
    start = question[:MAX_CLAUSE]
    if re.match(EVERYTHING, start, ANY_CASE):
        return Lookup("me", is_broad=True)
    for pattern in SEARCHED:
        found = re.search(pattern, start, ANY_CASE)
        if found and (query := found["query"].rstrip(" ?!.").strip()):
            return Lookup(query, is_broad=True)
    return Lookup(question, is_broad=False)
