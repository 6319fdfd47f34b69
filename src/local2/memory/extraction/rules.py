"""Extract facts without a model: find plain statements with tables of forms.

A message passes several stages: its lasting sentences are selected (`language/clauses.py`), matched
with the table of their language (`language/attributes.py`) and reworded (`language/wording.py`).
"""

import asyncio
from collections.abc import Iterator
from typing import NamedTuple

from local2.language.attributes import Attribute, Stated, Table
from local2.language.clauses import (
    GREETING,
    Salience,
    is_talk,
    join_short,
    without_lead_in,
)
from local2.language.corrections import corrected
from local2.language.questions import is_question
from local2.language.tables import ENGLISH, sentences_in, table_of
from local2.language.wording import THE_USER, dated, questions, quoted, shortened, standalone
from local2.language.words import informative_words
from local2.memory.extraction.extractor import (
    ASSISTANT,
    MAX_KEYWORDS,
    USER,
    Item,
    Passage,
    Utterance,
    topic_of_speaker,
)

_GREETED = ENGLISH.pattern(r"i('m| am) <v:name>(?=\W*$|,| and\b| from\b)")
_NAME = Attribute((), "user.name")
_TALKED_OF = Attribute((), importance=0.4, confidence=0.5, durability="ephemeral")


class RulesExtractor:
    """Finds plain statements. The same passage always gives the same items."""

    async def extract(self, passage: Passage) -> list[Item]:
        return await asyncio.to_thread(extract, passage)


class _Said(NamedTuple):
    """A statement, and the item made of it."""

    stated: Stated
    item: Item


def extract(passage: Passage) -> list[Item]:
    """The items of a passage, each statement once."""
    found: dict[tuple[str | None, str], Item] = {}
    last: dict[str | None, _Said] = {}
    messages = (*passage.context, *passage.messages)
    answers = [message.content for message in messages if message.role == ASSISTANT]
    salience = Salience(answers)
    asked = False
    for message in messages:
        if message.role != USER:
            asked = asked or is_question(message.content)
            continue
        between_people = message.speaker is not None and not answers
        for said in _said_in(message, last.pop(message.speaker, None), salience, asked=asked):
            item = said.item
            if between_people and item.memory_type == "instruction":
                continue
            last[message.speaker] = said
            if item.corrects is not None:  # what was said wrong in the same breath was never said
                wrong = found.get((item.topic, item.corrects))
                if wrong and wrong.sources == item.sources:
                    del found[item.topic, item.corrects]
            found[item.topic, item.content] = item
        asked = False
    own = {message.id for message in passage.messages}
    return [item for item in found.values() if not own.isdisjoint(item.sources)]


def _said_in(
    message: Utterance, before: _Said | None, salience: Salience, *, asked: bool
) -> Iterator[_Said]:
    """Yield a message's statements. `before`: the speaker's last one in the message before.

    `asked`: the other side has asked something since.
    """
    spoken_in = table_of(message.content)
    sentences = list(sentences_in(message.content, spoken_in))
    talk = is_talk(message.content, [sentence for sentence, _ in sentences])
    unmatched: list[str] = []
    for sentence, table in sentences:
        if before and (right := corrected(before.stated, sentence, asked=asked)):
            before = _Said(right, _item(right, message, corrects=before.item.content))
            yield before
            continue
        if not table.is_lasting(sentence):
            continue
        found = [_Said(stated, _item(stated, message)) for stated in _statements(sentence, table)]
        if not found and talk and salience.holds(bare := without_lead_in(sentence)):
            unmatched.append(bare)
        before = found[-1] if found else before
        yield from found
    for text in join_short(unmatched):
        talked = Stated(spoken_in, _TALKED_OF, text, None, text)
        yield _Said(talked, _item(talked, message))


def _statements(sentence: str, table: Table) -> Iterator[Stated]:
    """Yield what each clause of a sentence states, by the first form that matches."""
    has_greeting = GREETING.match(sentence) is not None
    for part in table.clauses(sentence):
        clause = part
        if not table.stands_alone(clause):  # maybe what it says before "…, so check it"
            clause = clause.rpartition(",")[0]
        if not (table.is_lasting(clause) and table.stands_alone(clause)):
            continue
        greeted = _GREETED.match(clause) if has_greeting else None
        if greeted:
            yield Stated(table, _NAME, clause, _NAME.topic, greeted["v"])
        elif stated := table.stated(clause):
            yield stated


def _item(stated: Stated, message: Utterance, *, corrects: str | None = None) -> Item:
    table, kind, clause, topic, _ = stated
    who = message.speaker or THE_USER
    if table is ENGLISH:
        content = standalone(dated(clause, message.at), message.speaker)
    else:
        content = quoted(clause, message.speaker)
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
        corrects=corrects,
    )
