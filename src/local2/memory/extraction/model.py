"""Extract facts with a model: one call finds and classifies them; the answer is checked.

Where the model gives no answer, another extractor, the rules, reads the messages at once: a message
is read once only.
"""

from collections.abc import Mapping, Sequence
from datetime import datetime
from itertools import chain

import structlog
from msgspec import Struct

from local2.errors import ModelError
from local2.language.words import informative_stems, informative_words, stems
from local2.llm.models import StructuredModel
from local2.memory.extraction.extractor import (
    MAX_KEYWORDS,
    USER,
    Extractor,
    Item,
    Passage,
    Utterance,
    topic_of_speaker,
)
from local2.protocol.memories import Durability, MemoryType
from local2.protocol.payloads import split_into_parts
from local2.quoting import visible

MESSAGE_CHARACTERS = 4_000
"""Maximum characters shown of a message."""
CALL_CHARACTERS = 16_000
"""Maximum characters of the messages in one call: about 4,000 tokens, of the 8,192 that a model
sees by default."""
CONTEXT = 4
"""Number of earlier messages that are shown as context."""
MAX_ITEM = 600
"""Maximum characters of an item: a sentence or two."""
MAX_QUERIES = 3
MAX_PHRASE = 120
"""Maximum characters of a keyword, a question or a summary."""
MIN_STATED = 0.5
"""Minimum fraction of an item's words that its messages must contain. A model may reword, but an
item with fewer was made up."""

INSTRUCTION = """\
You decide what a memory keeps of a conversation. You are given numbered messages. Those marked \
`context` only show what the others refer to: extract nothing from them. Return what will still \
matter in later conversations: who people are, what they like, own, decided, plan and did, dates \
and deadlines, how they want to be answered, and what has changed of that. Most messages contain \
nothing of the kind; return no items then. Leave out questions, requests of the moment, \
pleasantries, suppositions, and whatever is quoted, pasted or common knowledge.
For each item: `content`, one sentence that is understood without the conversation, with names \
instead of pronouns ("The user" for a user without a name) and dates instead of "tomorrow"; \
`summary`, a few words; `topic`, for what there can be only one of, a key such as user.name, \
user.home, user.colour_preference or project.deadline, else null; project is for what several \
people share, never for what somebody says of themselves; `keywords`; `queries`, at most three \
short questions it answers; `confidence` and `importance`, from 0 to 1; `durability`, "core" for \
what identifies somebody and for standing instructions, "ephemeral" for what is over in days, else \
"standard"; `sources`, the numbers of the messages that say it."""

log = structlog.get_logger()


class _ShownMessage(Struct, frozen=True, kw_only=True, omit_defaults=True):
    number: int
    role: str
    speaker: str | None = None
    said: datetime
    text: str
    context: bool = False


class _Shown(Struct, frozen=True, kw_only=True):
    messages: list[_ShownMessage]


class _Found(Struct, frozen=True, kw_only=True):
    memory_type: MemoryType
    content: str
    summary: str
    topic: str | None
    keywords: list[str]
    queries: list[str]
    confidence: float
    importance: float
    durability: Durability
    sources: list[int]


class _Findings(Struct, frozen=True, kw_only=True):
    items: list[_Found]


class ModelExtractor:
    """Asks a model for the items worth remembering, and drops those that the model made up."""

    def __init__(self, model: StructuredModel, *, within: float, otherwise: Extractor) -> None:
        """Extract with a model, or with `otherwise` what it gives no answer to.

        `within`: maximum seconds of a call; a long passage needs several calls.
        """
        self._model = model
        self._within = within
        self._otherwise = otherwise

    async def extract(self, passage: Passage) -> list[Item]:
        items: list[Item] = []
        portions = split_into_parts(
            passage.messages,
            lambda message: min(len(message.content), MESSAGE_CHARACTERS),
            max_bytes=CALL_CHARACTERS,
            max_items=len(passage.messages),
        )
        before = passage.context
        for messages in portions:
            context, before = before, messages
            users = {n: m for n, m in enumerate(messages, start=1) if m.role == USER}
            if not users:
                continue
            # The messages are numbered from 1; those before the portion have the number 0.
            shown = [_as_shown(0, message) for message in context[-CONTEXT:]]
            shown += [_as_shown(n, message) for n, message in enumerate(messages, 1)]
            material = _Shown(messages=shown)
            try:
                answer = await self._model.answer_as(
                    _Findings, instruction=INSTRUCTION, material=material, within=self._within
                )
            except ModelError as error:
                log.info("extracted_without_model", messages=len(users), reason=error.logged)
                portion = Passage(messages=messages, context=context)
                items += await self._otherwise.extract(portion)
                continue
            checked = [item for found in answer.items if (item := _checked(found, users))]
            if left_out := len(answer.items) - len(checked):
                log.info("extracted_items_left_out", model=self._model.name, count=left_out)
            items += checked
        return items


def _as_shown(number: int, message: Utterance) -> _ShownMessage:
    return _ShownMessage(
        number=number,
        role=message.role,
        speaker=message.speaker,
        said=message.at,
        text=message.content[:MESSAGE_CHARACTERS],
        context=number == 0 or message.role != USER,
    )


def _checked(found: _Found, users: Mapping[int, Utterance]) -> Item | None:
    """The item, or None if it is too long or no user's message states it."""
    sources = [users[number] for number in dict.fromkeys(found.sources) if number in users]
    content, topic = _line(found.content), found.topic
    if not sources or not 0 < len(content) <= MAX_ITEM:
        return None
    # Enough of its informative words occur in the messages, in some form.
    spoken = chain.from_iterable((m.content, m.speaker or USER) for m in sources)
    known = informative_stems("\n".join(spoken))
    own = stems(informative_words(content))
    if sum(stem in known for stem in own) < MIN_STATED * max(len(own), 1):
        return None
    return Item(
        memory_type=found.memory_type,
        content=content,
        summary=_line(found.summary)[:MAX_PHRASE],
        topic=topic and topic_of_speaker(topic, sources[0].speaker),
        keywords=_phrases(found.keywords)[:MAX_KEYWORDS],
        queries=_phrases(found.queries)[:MAX_QUERIES],
        confidence=_clamped(found.confidence),
        importance=_clamped(found.importance),
        durability=found.durability,
        sources=tuple(message.id for message in sources),
    )


def _line(text: str) -> str:
    return " ".join(visible(text).split())


def _phrases(texts: Sequence[str]) -> tuple[str, ...]:
    return tuple(line for text in texts if 0 < len(line := _line(text)) <= MAX_PHRASE)


def _clamped(value: float) -> float:
    return min(max(value, 0.0), 1.0)
