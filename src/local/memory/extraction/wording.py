"""A statement in the third person, so that it is understood without the conversation.

Only where that is safe. Everything else stays as it was said, with its speaker before it: a wrong
rewording is worse than none.
"""

import re

THE_USER = "The user"
SUMMARY_CHARACTERS = 80

_IRREGULAR = {"am": "is", "have": "has", "do": "does", "go": "goes"}
_UNCHANGED = re.compile(
    r"(?:was|had|did|will|can|cannot|must|should|used|can't|won't|couldn't|didn't|wasn't|hadn't)$"
)
_ADVERB = re.compile(
    r"(?:never|always|often|usually|sometimes|really|also|just|finally|recently|currently"
    r"|absolutely|already|still|only|actually|mostly|mainly|generally|normally|once|totally|truly"
    r"|definitely)$"
)
_PAST = re.compile(
    r"(?!need|feed|breed|(?:pro|suc|ex)ceed|speed|bleed)(?:\w{2,}ed|went|got|ran|bought|broke|built|came|chose|did|drove|ate|fell|flew|found|gave"
    r"|grew|had|heard|hurt|kept|knew|left|lost|made|met|moved|paid|put|quit|read|saw|sold|sent"
    r"|set|slept|spent|spoke|stood|swam|took|taught|told|thought|was|won|wore|wrote|began|became"
    r"|brought|caught|cut|drank|felt|held|hit|led|let|rode|rose|sang|shot|split|stuck|swore|threw"
    r"|woke)$"
)
_CONTRACTED = {"'m": "is", "'ve": "has", "'ll": "will", "'d": None}
_FIRST = re.compile(r"I(?P<short>'\w+)?\s+(?P<rest>.+)", re.DOTALL | re.IGNORECASE)
_MY = re.compile(r"my\b", re.IGNORECASE)
_UNSAFE = re.compile(
    r"\b(?:you|your|yours|yourself|we|our|ours|us|let's|he|she|him|his|her|hers|they|them|their)\b"
    r"|\"",
    re.IGNORECASE,
)
"""Persons whom third person would mix up with the speaker, or leave unclear."""
_PERSONS = re.compile(
    r"\b(?:i|my|me|mine|myself|you|your|yours|we|our|ours|us|let's)\b|\"", re.IGNORECASE
)
_LATER = (
    (re.compile(r"\bI'm\b|\bI am\b", re.IGNORECASE), "they are"),
    (re.compile(r"\bI was\b", re.IGNORECASE), "they were"),
    (re.compile(r"\bI(?='\w)|\bI\b"), "they"),
    (re.compile(r"\bmy\b", re.IGNORECASE), "their"),
    (re.compile(r"\bme\b", re.IGNORECASE), "them"),
    (re.compile(r"\bmine\b", re.IGNORECASE), "theirs"),
    (re.compile(r"\bmyself\b", re.IGNORECASE), "themselves"),
)


def standalone(statement: str, speaker: str | None) -> str:
    """The statement as a sentence about its speaker, None being the user."""
    who = speaker or THE_USER
    said = statement.strip(" ,;:")
    capital = f"{said[:1].upper()}{said[1:]}"
    if speaker is None and not _PERSONS.search(said):
        sentence = capital
    else:
        reworded = None if _UNSAFE.search(said) else _in_third_person(said, who)
        sentence = reworded or f"{who} said: {capital}"
    return sentence if sentence[-1] in ".!?" else f"{sentence}."


def shortened(sentence: str) -> str:
    """As much of the sentence as a summary holds, in whole words."""
    text = sentence.rstrip(".")
    if len(text) <= SUMMARY_CHARACTERS:
        return text
    return f"{text[:SUMMARY_CHARACTERS].rpartition(' ')[0]} …"


def _in_third_person(said: str, who: str) -> str | None:
    if _MY.match(said):
        return f"{who}'s {_later(said[2:].lstrip())}"
    found = _FIRST.fullmatch(said)
    if found is None:
        return None
    predicate = _predicate(found["short"], found["rest"])
    return predicate and f"{who} {predicate}"


def _predicate(short: str | None, rest: str) -> str | None:
    """What follows "I", with its verb in the third person; None where the verb is unclear."""
    if short is not None:
        verb = _CONTRACTED.get(short.lower())
        return verb and f"{verb} {_later(rest)}"
    before: list[str] = []
    verb, _, after = rest.partition(" ")
    while _ADVERB.match(verb.lower()) and after:
        before.append(verb)
        verb, _, after = after.partition(" ")
    lower = verb.lower()
    if not lower.replace("'", "").isalpha():
        return None
    return " ".join(filter(None, (*before, _third(lower), _later(after))))


def _third(verb: str) -> str:
    """The verb as it follows a name."""
    if verb in _IRREGULAR:
        return _IRREGULAR[verb]
    if verb in {"don't", "haven't"}:
        return {"don't": "doesn't", "haven't": "hasn't"}[verb]
    if _UNCHANGED.match(verb) or _PAST.match(verb):
        return verb
    if verb.endswith(("s", "sh", "ch", "x", "z", "o")):
        return f"{verb}es"
    if verb.endswith("y") and verb[-2:-1] not in "aeiou":
        return f"{verb[:-1]}ies"
    return f"{verb}s"


def _later(text: str) -> str:
    for pattern, word in _LATER:
        text = pattern.sub(word, text)
    return text
