"""Extraction without a model: finds plain statements, by tables of forms.

A message passes small stages: its own sentences, and of them those that last (sentences.py), their
statements (the forms in tables.py), and the wording (wording.py).
"""

import asyncio
import re
from collections.abc import Iterator
from typing import NamedTuple

from local.memory.extraction.forms import GONE, NAME, Form, form, opening_of, topic_of
from local.memory.extraction.items import (
    ASSISTANT,
    USER,
    Item,
    Passage,
    Utterance,
    topic_of_speaker,
)
from local.memory.extraction.sentences import (
    Salience,
    clauses_of,
    is_denied,
    is_lasting,
    is_talk,
    sentences_of,
    stands_alone,
    together,
    without_lead_in,
)
from local.memory.extraction.tables import PEOPLE, PROJECTS
from local.memory.extraction.wording import THE_USER, dated, questions, shortened, standalone
from local.text.words import informative_words

MAX_KEYWORDS = 8

_FORMS = {
    (opening, denied): [
        each
        for each in (*PROJECTS, *PEOPLE)
        if each.opening in {None, opening} and (each.negative or not denied)
    ]
    for opening in (None, "I", "my")
    for denied in (False, True)
}
"""Those that a clause can have, by how it begins and whether there is a "not" in it."""
_GREETED = form("fact", rf"i(?:'m| am) (?P<v>{NAME})(?=\W*$|,| and\b| from\b)", "user.name")
_GREETING = re.compile(r"\s*(?:hi|hello|hey|good (?:morning|evening|afternoon))\b", re.IGNORECASE)
_TALKED_OF = form("fact", "", importance=0.4, confidence=0.5, durability="ephemeral")
_WHEN_FIRST = re.compile(
    rf"(?P<time>(?:in |on |since |back in )?{GONE}),? (?P<rest>(?:i|we|my)\b.+)", re.IGNORECASE
)
_DIGIT = re.compile(r"\d")
_CORRECTS = re.compile(
    r"(?:actually|correction|sorry|no|wait|oops)[,:.!]? (?:it's|it is|make that|i meant|make it)"
    r"(?: now)? (?P<v>(?!not\b|fine|ok|good|the )\S.*)",
    re.IGNORECASE,
)


class _Stated(NamedTuple):
    """A clause, the kind of its form, and where its value begins."""

    form: Form
    clause: str
    topic: str | None
    value_at: int


class RulesExtractor:
    """Finds plain statements; the same passage always gives the same items."""

    async def extract(self, passage: Passage) -> list[Item]:
        return await asyncio.to_thread(extract, passage)


def extract(passage: Passage) -> list[Item]:
    """Return the items of a passage, each statement once."""
    found: dict[tuple[str | None, str], Item] = {}
    keyed: dict[str | None, _Stated] = {}
    salience = Salience(passage)
    every = (*passage.context, *passage.messages)
    assisted = any(message.role == ASSISTANT for message in every)
    for message in every:
        if message.role != USER:
            continue
        between_people = message.speaker is not None and not assisted
        for stated in _stated(message, keyed.pop(message.speaker, None), salience):
            if between_people and stated.form.memory_type == "instruction":
                continue
            if stated.topic is not None:
                keyed[message.speaker] = stated
            item = _item(stated, message)
            found[item.topic, item.content] = item
    own = {message.id for message in passage.messages}
    return [item for item in found.values() if not own.isdisjoint(item.sources)]


def _stated(message: Utterance, before: _Stated | None, salience: Salience) -> Iterator[_Stated]:
    """Yield a message's statements; `before` is its speaker's last statement under a key."""
    sentences = list(sentences_of(message.content))
    talk = is_talk(message.content, sentences)
    talked_of: list[str] = []
    for sentence in filter(is_lasting, sentences):
        if before and (corrected := _corrected(before, sentence)):
            yield corrected
            continue
        found = list(_read(sentence))
        if not found and talk and salience.holds(bare := without_lead_in(sentence)):
            talked_of.append(bare)
        before = next((stated for stated in reversed(found) if stated.topic), before)
        yield from found
    for text in together(talked_of):
        yield _Stated(_TALKED_OF, text, None, 0)


def _corrected(before: _Stated, sentence: str) -> _Stated | None:
    """Return the statement with the value of a correction, if that is a value of the same kind."""
    found = _CORRECTS.match(sentence)
    if found is None:
        return None
    old, new = before.clause[before.value_at :], found["v"].rstrip(".! ")
    if _kind(old) != _kind(new) or len(new.split()) > len(old.split()):
        return None
    return before._replace(clause=before.clause[: before.value_at] + new)


def _kind(value: str) -> tuple[bool, bool]:
    """Return whether there is a figure in it, and whether it begins like a name."""
    return _DIGIT.search(value) is not None, value[:1].isupper()


def _read(sentence: str) -> Iterator[_Stated]:
    """Yield what each clause of a sentence states, by the first form that it has."""
    greeted = _GREETING.match(sentence) is not None
    for part in clauses_of(_in_order(without_lead_in(sentence))):
        clause = without_lead_in(part)
        if is_lasting(clause) and stands_alone(clause):
            forms = _FORMS[opening_of(clause), is_denied(clause)]
            tried = (_match(each, clause) for each in ([_GREETED, *forms] if greeted else forms))
            if stated := next(filter(None, tried), None):
                yield stated


def _match(form_: Form, clause: str) -> _Stated | None:
    found = form_.pattern.match(clause)
    if found is None:
        return None
    value_at = found.start("v") if "v" in form_.pattern.groupindex else 0
    return _Stated(form_, clause, topic_of(form_, found), value_at)


def _in_order(sentence: str) -> str:
    """Return the sentence with its time at the end: "Last week I …" as "I … last week"."""
    found = _WHEN_FIRST.fullmatch(sentence.rstrip(" .!"))
    if found is None:
        return sentence
    time = found["time"]
    return f"{found['rest']} {time[:1].lower() if time[1:2].islower() else time[:1]}{time[1:]}"


def _item(stated: _Stated, message: Utterance) -> Item:
    kind, clause, topic, _ = stated
    who = message.speaker or THE_USER
    content = standalone(dated(clause, message.at), message.speaker)
    if kind.memory_type == "instruction":
        content = f"{who} asks: {clause[:1].upper()}{clause[1:].rstrip('.')}."
    key = topic and topic_of_speaker(topic, message.speaker)
    return Item(
        memory_type=kind.memory_type,
        content=content,
        summary=shortened(content),
        topic=key,
        keywords=tuple(informative_words(clause)[:MAX_KEYWORDS]),
        queries=questions(topic, who),
        confidence=kind.confidence,
        importance=kind.importance,
        durability=kind.durability,
        sources=(message.id,),
    )
