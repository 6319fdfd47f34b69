"""Extract facts without a model: find plain statements with tables of forms.

A message passes several stages: its lasting sentences are selected (`language/clauses.py`), matched
with forms (`language/forms.py`) and reworded (`language/wording.py`).
"""

import asyncio
import re
from collections.abc import Iterator
from typing import NamedTuple

from local2.language.clauses import (
    CORRECTED_VALUE,
    GREETING,
    Salience,
    clauses_of,
    is_denied,
    is_lasting,
    is_talk,
    join_short,
    sentences_of,
    stands_alone,
    with_time_last,
    without_lead_in,
)
from local2.language.forms import (
    NAME,
    PEOPLE,
    PROJECT_ATTRIBUTE,
    PROJECTS,
    Form,
    form,
    opening_of,
    topic_of,
)
from local2.language.wording import THE_USER, dated, questions, shortened, standalone
from local2.language.words import informative_words
from local2.memory.extraction.items import (
    ASSISTANT,
    USER,
    Item,
    Passage,
    Utterance,
    topic_of_speaker,
)

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
"""The forms to try for a clause, by its opening and by whether it has a "not" in it."""
_GREETED = form("fact", rf"i(?:'m| am) (?P<v>{NAME})(?=\W*$|,| and\b| from\b)", "user.name")
_TALKED_OF = form("fact", "", importance=0.4, confidence=0.5, durability="ephemeral")
_DIGIT = re.compile(r"\d")
_PROJECT_ATTRIBUTE = re.compile(PROJECT_ATTRIBUTE, re.IGNORECASE)
_PROJECT_TOPICS = frozenset(each.topic for each in PROJECTS if each.topic and "{" not in each.topic)


class _Stated(NamedTuple):
    """A clause with its form, its topic key, and the position of its value."""

    form: Form
    clause: str
    topic: str | None
    value_at: int


class RulesExtractor:
    """Finds plain statements. The same passage always gives the same items."""

    async def extract(self, passage: Passage) -> list[Item]:
        return await asyncio.to_thread(extract, passage)


def extract(passage: Passage) -> list[Item]:
    """Return the items of a passage, each statement once."""
    found: dict[tuple[str | None, str], Item] = {}
    last_keyed: dict[str | None, _Stated] = {}
    messages = (*passage.context, *passage.messages)
    answers = [message.content for message in messages if message.role == ASSISTANT]
    salience = Salience(answers)
    for message in messages:
        if message.role != USER:
            continue
        between_people = message.speaker is not None and not answers
        for stated in _stated_in(message, last_keyed.pop(message.speaker, None), salience):
            if between_people and stated.form.memory_type == "instruction":
                continue
            if stated.topic is not None:
                last_keyed[message.speaker] = stated
            item = _item(stated, message)
            found[item.topic, item.content] = item
    own = {message.id for message in passage.messages}
    return [item for item in found.values() if not own.isdisjoint(item.sources)]


def _stated_in(message: Utterance, before: _Stated | None, salience: Salience) -> Iterator[_Stated]:
    """Yield a message's statements. `before`: the speaker's last statement with a topic key."""
    sentences = list(sentences_of(message.content))
    talk = is_talk(message.content, sentences)
    unmatched: list[str] = []
    for sentence in filter(is_lasting, sentences):
        if before and (corrected := _corrected(before, sentence)):
            yield corrected
            continue
        found = list(_statements(sentence))
        if not found and talk and salience.holds(bare := without_lead_in(sentence)):
            unmatched.append(bare)
        before = next((stated for stated in reversed(found) if stated.topic), before)
        yield from found
    for text in join_short(unmatched):
        yield _Stated(_TALKED_OF, text, None, 0)


def _corrected(before: _Stated, sentence: str) -> _Stated | None:
    """Return the statement with a corrected value, if the sentence corrects it."""
    found = CORRECTED_VALUE.match(sentence)
    if found is None:
        return None
    old, new = before.clause[before.value_at :], found["v"].rstrip(".! ")
    if _value_kind(old) != _value_kind(new) or len(new.split()) > len(old.split()):
        return None
    return before._replace(clause=before.clause[: before.value_at] + new)


def _value_kind(value: str) -> tuple[bool, bool]:
    """Return whether a value has a digit, and whether it begins like a name."""
    return _DIGIT.search(value) is not None, value[:1].isupper()


def _statements(sentence: str) -> Iterator[_Stated]:
    """Yield what each clause of a sentence states, by the first form that matches."""
    has_greeting = GREETING.match(sentence) is not None
    for part in clauses_of(with_time_last(without_lead_in(sentence))):
        clause = without_lead_in(part)
        if is_lasting(clause) and stands_alone(clause):
            forms = _FORMS[opening_of(clause), is_denied(clause)]
            forms = [_GREETED, *forms] if has_greeting else forms
            matches = (_match(each, clause) for each in forms)
            if stated := next(filter(None, matches), None):
                yield stated


def _match(form_: Form, clause: str) -> _Stated | None:
    found = form_.pattern.match(clause)
    if found is None:
        return None
    value_at = found.start("v") if "v" in form_.pattern.groupindex else 0
    topic = topic_of(form_, found)
    if topic and topic not in _PROJECT_TOPICS and (what := found.groupdict().get("what")):
        scope, _, key = topic.partition(".")
        if scope == "project" and not _PROJECT_ATTRIBUTE.fullmatch(what):
            # A household has things of its own, too: "Our plumber is Goran" concerns nobody else.
            topic = f"user.{key}"
    return _Stated(form_, clause, topic, value_at)


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
