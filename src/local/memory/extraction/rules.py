"""Extraction without a model: what is plainly stated, by tables of forms.

A message passes small stages: its own sentences (statements.py), those that last (importance.py),
what they state (the tables in people.py and projects.py), and its wording (wording.py, dates.py).
"""

import re
from collections.abc import Iterator
from typing import NamedTuple

from local.ledger.records import is_topic
from local.memory.extraction.dates import dated
from local.memory.extraction.forms import GONE, NAME, Form, form, topic_of
from local.memory.extraction.importance import is_denied, is_lasting
from local.memory.extraction.items import USER, Item, Passage, Said
from local.memory.extraction.people import PEOPLE
from local.memory.extraction.projects import PROJECTS
from local.memory.extraction.questions import questions
from local.memory.extraction.salience import Salience, is_talk
from local.memory.extraction.statements import clauses_of, sentences_of, without_lead_in
from local.memory.extraction.wording import THE_USER, shortened, standalone
from local.text.keywords import telling_words

MAX_KEYWORDS = 8
FEWEST_WORDS = 3

_FORMS = (*PROJECTS, *PEOPLE)
_GREETED = form("fact", rf"i(?:'m| am) (?P<v>{NAME})(?=\W*$|,| and\b| from\b)", "user.name")
_GREETING = re.compile(r"\s*(?:hi|hello|hey|good (?:morning|evening|afternoon))\b", re.IGNORECASE)
_TALKED_OF = form("fact", "", importance=0.4, confidence=0.5)
_AHEAD = form("task", "", importance=0.4, confidence=0.5, durability="ephemeral")
_PLANS = re.compile(
    r"(?:i|we)(?:'ll| will|'m going to| am going to|'re going to| are going to| need to| have to"
    r"| must| plan to| should)\b",
    re.IGNORECASE,
)
_WHEN_FIRST = re.compile(
    rf"(?P<time>(?:in |on |since |back in )?{GONE}),? (?P<rest>(?:i|we|my)\b.+)", re.IGNORECASE
)
_CORRECTS = re.compile(
    r"(?:actually|correction|sorry|no|wait|oops)[,:.!]? (?:it's|it is|make that|i meant|make it)"
    r"(?: now)? (?P<v>(?!not\b|fine|ok|good|the )\S.*)",
    re.IGNORECASE,
)


class _Stated(NamedTuple):
    """A clause, what kind of form it has, and where its value begins."""

    form: Form
    clause: str
    topic: str | None
    value_at: int


class RulesExtractor:
    """Finds what is plainly stated; the same passage always gives the same items."""

    async def extract(self, passage: Passage) -> list[Item]:
        return extract(passage)


def extract(passage: Passage) -> list[Item]:
    """The items of a passage, each statement once."""
    found: dict[tuple[str | None, str], Item] = {}
    keyed: dict[str | None, _Stated] = {}
    salience = Salience(passage)
    for message in (*passage.context, *passage.messages):
        if message.role != USER:
            continue
        for stated in _stated(message, keyed.get(message.speaker), salience):
            if stated.topic is not None:
                keyed[message.speaker] = stated
            item = _item(stated, message)
            found[item.topic, item.content] = item
    own = {message.id for message in passage.messages}
    return [item for item in found.values() if not own.isdisjoint(item.sources)]


def _stated(message: Said, before: _Stated | None, salience: Salience) -> Iterator[_Stated]:
    """What a message states; `before` is the last thing its speaker stated that can be corrected."""
    sentences = list(sentences_of(message.content))
    talk = is_talk(message.content, sentences)
    for sentence in filter(is_lasting, sentences):
        if before and (corrected := _CORRECTS.match(sentence)):
            clause = before.clause[: before.value_at] + corrected["v"].rstrip(".! ")
            yield before._replace(clause=clause)
            continue
        found = list(_read(sentence))
        if not found and talk and salience.holds(bare := without_lead_in(sentence)):
            found = [_Stated(_AHEAD if _PLANS.match(bare) else _TALKED_OF, bare, None, 0)]
        before = next((stated for stated in reversed(found) if stated.topic), before)
        yield from found


def _read(sentence: str) -> Iterator[_Stated]:
    """What each clause of a sentence states, by the first form that it has."""
    forms = (_GREETED, *_FORMS) if _GREETING.match(sentence) else _FORMS
    for part in clauses_of(_in_order(without_lead_in(sentence))):
        clause = without_lead_in(part)
        if len(clause.split()) >= FEWEST_WORDS and is_lasting(clause):
            denied = is_denied(clause)
            fitting = (each for each in forms if each.negative or not denied)
            stated = next(filter(None, (_match(each, clause) for each in fitting)), None)
            if stated is not None:
                yield stated


def _match(form_: Form, clause: str) -> _Stated | None:
    found = form_.pattern.match(clause)
    if found is None:
        return None
    value_at = found.start("v") if "v" in form_.pattern.groupindex else 0
    return _Stated(form_, clause, topic_of(form_, found), value_at)


def _in_order(sentence: str) -> str:
    """The sentence with a time from its beginning at its end: "Last week I …" as "I … last week"."""
    found = _WHEN_FIRST.fullmatch(sentence.rstrip(" .!"))
    if found is None:
        return sentence
    time = found["time"]
    return f"{found['rest']} {time[:1].lower() if time[1:2].islower() else time[:1]}{time[1:]}"


def _item(stated: _Stated, message: Said) -> Item:
    kind, clause, topic, _ = stated
    who = message.speaker or THE_USER
    content = standalone(dated(clause, message.at), message.speaker)
    if kind.memory_type == "instruction":
        content = f"{who} asks: {clause[:1].upper()}{clause[1:].rstrip('.')}."
    key = _of_speaker(topic, message.speaker)
    return Item(
        memory_type=kind.memory_type,
        content=content,
        summary=shortened(content),
        topic=key,
        keywords=tuple(telling_words(clause)[:MAX_KEYWORDS]),
        queries=questions(topic, who),
        confidence=kind.confidence,
        importance=kind.importance,
        durability=kind.durability,
        sources=(message.id,),
    )


def _of_speaker(topic: str | None, speaker: str | None) -> str | None:
    """The key of this speaker: of two people who talk, each has a name, a home and so on."""
    if topic is None:
        return None
    if speaker is not None and topic.startswith("user."):
        name = "_".join(telling_words(speaker)) or "somebody"
        topic = f"user.{name}.{topic.removeprefix('user.')}"
    return topic if is_topic(topic) else None
