"""Word statements so that they are understood without the conversation.

They get the third person, a date, and the questions that they answer. A statement is reworded only
if that is safe; otherwise it is quoted after its speaker, because a wrong rewording is worse than
none.
"""

import re
from datetime import datetime

from local2.language.attributes import expanded
from local2.language.english import IRREGULAR_PAST, VOCABULARY
from local2.language.time import DAY, WEEKDAYS, Span, find_window, in_zone, shifted, whole

THE_USER = "The user"
SUMMARY_CHARACTERS = 80

_IRREGULAR = {
    "am": "is", "have": "has", "do": "does", "go": "goes", "don't": "doesn't", "haven't": "hasn't",
}  # fmt: skip
"""Verbs in the first person, and in the third."""
_FIRST_PERSON_OF = {third: first for first, third in _IRREGULAR.items()}
_UNCHANGED = re.compile(
    r"(?:was|had|did|will|can|cannot|must|should|ought|used|can't|won't|couldn't|didn't|wasn't|hadn't)$"
)
_ADVERB = re.compile(
    r"(?:no|longer|never|always|often|sometimes|also|just|now|already|still|once|even|\w{2,}ly)$"
)
_PAST = re.compile(
    rf"(?!need|feed|breed|(?:pro|suc|ex)ceed|speed|bleed)(?:\w{{2,}}ed|{IRREGULAR_PAST})$"
)
_CONTRACTED = {"'m": "is", "'ve": "has", "'ll": "will", "'d": None}
_FIRST = re.compile(r"I(?P<short>'\w+)?\s+(?P<rest>.+)", re.DOTALL | re.IGNORECASE)
_MY = re.compile(r"my\b", re.IGNORECASE)
_UNSAFE = re.compile(
    r"\b(?:you|your|yours|yourself|we|our|ours|us|let's|he|she|him|his|her|hers|they|them|their)\b"
    r"|\"",
    re.IGNORECASE,
)
"""Words for persons that would be confused with the speaker in the third person."""
_PERSONS = re.compile(
    r"\b(?:i|my|me|mine|myself|you|your|yours|we|our|ours|us|let's)\b|\"", re.IGNORECASE
)
_THIRD_PERSON = (
    (re.compile(r"\bI'm\b|\bI am\b", re.IGNORECASE), "they are"),
    (re.compile(r"\bI was\b", re.IGNORECASE), "they were"),
    (re.compile(r"\bI(?='\w| [a-z])|\bi\b"), "they"),
    (re.compile(r"\bmy\b", re.IGNORECASE), "their"),
    (re.compile(r"\bme\b", re.IGNORECASE), "them"),
    (re.compile(r"\bmine\b", re.IGNORECASE), "theirs"),
    (re.compile(r"\bmyself\b", re.IGNORECASE), "themselves"),
)
_FIRST_PERSON = (
    (re.compile(r"\btheir\b"), "my"),
    (re.compile(r"\bthem\b"), "me"),
    (re.compile(r"\bthey are\b"), "I am"),
    (re.compile(r"\bthey\b"), "I"),
)
_NUMERAL = re.compile(r"\bI\b")
"""An "I" that is left in the third person does not mean the speaker: "Book I"."""
_SENTENCE_STARTS = re.compile(r"(?<=\. )[a-z]")


def standalone(statement: str, speaker: str | None) -> str:
    """The statement as a sentence about its speaker. None means the user."""
    who = speaker or THE_USER
    clause = statement.strip(" ,;:")
    capital = f"{clause[:1].upper()}{clause[1:]}"
    if speaker is None and not _PERSONS.search(clause):
        sentence = capital
    else:
        reworded = None if _UNSAFE.search(clause) else _clause_in_third_person(clause, who)
        if reworded is None or _NUMERAL.search(reworded):
            return quoted(statement, speaker)
        sentence = reworded
    return sentence if sentence[-1] in ".!?" else f"{sentence}."


def quoted(statement: str, speaker: str | None) -> str:
    """The statement after its speaker. None means the user."""
    clause = statement.strip(" ,;:")
    end = "" if clause[-1:] in ".!?" else "."
    return f"{speaker or THE_USER} said: {clause[:1].upper()}{clause[1:]}{end}"


def first_person(content: str, speaker: str | None) -> str | None:
    """The clause that `standalone` reworded; None if it is about something else."""
    who = speaker or THE_USER
    subject, rest = content[: len(who)], content[len(who) :]
    if subject.casefold() != who.casefold():
        return content if speaker is None else None
    if rest.startswith(" said: "):
        return rest.removeprefix(" said: ")
    for pattern, word in _FIRST_PERSON:
        rest = pattern.sub(word, rest)
    if rest.startswith("'s "):
        return f"my{rest[2:]}"
    before, verb, after = _around_verb(rest.strip())
    return " ".join(("I", *before, _in_first_person(verb), after)).strip()


def _around_verb(predicate: str) -> tuple[list[str], str, str]:
    """The adverbs before the verb, the verb, and what follows it."""
    before: list[str] = []
    verb, _, after = predicate.partition(" ")
    while _ADVERB.match(verb.lower()) and after:
        before.append(verb)
        verb, _, after = after.partition(" ")
    return before, verb, after


def _in_first_person(verb: str) -> str:
    if verb in _FIRST_PERSON_OF:
        return _FIRST_PERSON_OF[verb]
    if _UNCHANGED.match(verb):
        return verb
    if verb.endswith("ies") and len(verb) > len("dies"):  # not of "die", "lie", "tie"
        return f"{verb[:-3]}y"
    if verb.endswith(("sses", "shes", "ches", "xes", "zzes", "oes")):
        return verb[:-2]
    return verb.removesuffix("s")


def shortened(sentence: str) -> str:
    """The sentence cut to the length of a summary, after a whole word."""
    text = sentence.rstrip(".")
    if len(text) <= SUMMARY_CHARACTERS:
        return text
    return f"{text[:SUMMARY_CHARACTERS].rpartition(' ')[0]} …"


def _clause_in_third_person(clause: str, who: str) -> str | None:
    """The clause about this speaker; None if its verb is unclear."""
    if _MY.match(clause):
        return f"{who}'s {_with_third_person(clause[2:].lstrip())}"
    found = _FIRST.fullmatch(clause)
    if found is None:
        return None
    short, rest = found["short"], found["rest"]
    if short is not None:
        contracted = _CONTRACTED.get(short.lower())
        return contracted and f"{who} {contracted} {_with_third_person(rest)}"
    before, verb, after = _around_verb(rest)
    verb = verb.lower()
    if not verb.replace("'", "").isalpha():
        return None
    return " ".join(filter(None, (who, *before, in_third_person(verb), _with_third_person(after))))


def in_third_person(verb: str) -> str:
    """The verb in the third person singular."""
    if verb in _IRREGULAR:
        return _IRREGULAR[verb]
    if _UNCHANGED.match(verb) or _PAST.match(verb):
        return verb
    if verb.endswith(("s", "sh", "ch", "x", "z", "o")):
        return f"{verb}es"
    if verb.endswith("y") and verb[-2:-1] not in "aeiou":
        return f"{verb[:-1]}ies"
    return f"{verb}s"


def _with_third_person(text: str) -> str:
    """The text with "they", "their" and "them" for the first person."""
    for pattern, word in _THIRD_PERSON:
        text = pattern.sub(word, text)
    return _SENTENCE_STARTS.sub(lambda found: found[0].upper(), text)


_DAYS = {"today": 0, "tonight": 0, "tomorrow": 1, "the day after tomorrow": 2}
_RELATIVE = expanded(
    rf"\b((?P<named>{'|'.join(reversed(_DAYS))})"
    r"|(?P<which>next|this|coming|by|until|before) (?P<weekday><weekday>)"
    r"|(?P<past>(the day before )?yesterday|last (<period>|<weekday>)"
    r"|this (morning|afternoon|evening))"
    r"|in (<some>) (<unit>)s?|(<some>) (<unit>)s? ago"
    r"|(next|this) (<period>)|on (<weekday>)|the other day|recently)\b",
    VOCABULARY,
)


def dated(statement: str, at: datetime) -> str:
    """The statement with the date of its first relative time, if it has one.

    If that date cannot be determined, the date of the message is added.
    """
    found = _RELATIVE.search(statement)
    if found is None:
        return statement
    date = _date_of(found, at)
    if date is None:
        return f"{statement.rstrip('.!')} (said on {at:%Y-%m-%d})"
    return f"{statement[: found.end()]} ({date}){statement[found.end() :]}"


def _date_of(found: re.Match[str], at: datetime) -> str | None:
    if name := found["named"]:
        return f"{shifted(at, _DAYS[name.lower()] * DAY):%Y-%m-%d}"
    if name := found["weekday"]:
        days = (WEEKDAYS.index(name.lower()) - at.weekday() - 1) % len(WEEKDAYS) + 1
        day = shifted(at, days * DAY)
        if found["which"].lower() == "next" and whole("week", day) == whole("week", at):
            return None  # "next Friday" is ambiguous
        return f"{day:%Y-%m-%d}"
    window = find_window(found[0], at) if found["past"] else None
    if window is None or window.since is None or window.until is None:
        return None
    span = Span(in_zone(window.since, at.tzinfo), in_zone(window.until, at.tzinfo))
    if span.until - span.since <= 2 * DAY:
        return f"{span.since:%Y-%m-%d}"
    for unit, form in (("week", "week of %Y-%m-%d"), ("month", "%Y-%m"), ("year", "%Y")):
        if span == whole(unit, span.since):
            return format(span.since, form)
    return None


def questions(topic: str | None, who: str) -> tuple[str, ...]:
    """The question that the value of a topic key answers; empty without a key."""
    if topic is None:
        return ()
    scope, _, key = topic.partition(".")
    what = key.replace("_", " ").replace(".", "'s ")
    if scope != "user":
        return (f"What is the {what}?",)
    name = who[:1].lower() + who[1:] if who.startswith("The ") else who
    return (f"What is {name}'s {what}?",)
