"""Have a chat model answer a question from what was recalled, and cite its sources."""

from collections.abc import Sequence
from datetime import datetime
from functools import partial

import structlog
from msgspec import Struct

from local2.background import read_text
from local2.errors import ModelError
from local2.language.passages import cut_to_passage, passage
from local2.language.questions import without_questions
from local2.ledger.records import source_class_of
from local2.llm.models import StructuredModel
from local2.memory.recall.results import RecallItem
from local2.memory.recall.tuning import QUOTED
from local2.protocol.memory_tools import Answer
from local2.quoting import LATER_CHARACTERS

ITEM_CHARACTERS = 2_000
"""Maximum characters shown of each item."""
ALL_CHARACTERS = 12_000
"""Maximum characters of all items together: about 3,000 tokens, of the 8,192 that a model sees by
default."""
INSTRUCTION = """\
Answer the question from the numbered items of a memory, and from nothing else that you know. \
`said` is when an item was said, `speaker` by whom, `source` what class of source that is, and \
`topic` the key of a standing fact, `outdated` whether another item replaces it, and `later` the \
reply that a question got, or what the same speaker said about it since. Where items contradict \
each other, a standing fact of the user holds, and else the one said last. Answer briefly, in the \
language of the question, and give the numbers of the items that your answer rests on. If the \
items do not answer the question, give an empty answer and no numbers."""

log = structlog.get_logger()


class _SaidLater(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The reply to an item that asks, or a later statement. `source` is its class."""

    said: datetime
    text: str
    source: str | None = None


class _ShownItem(Struct, frozen=True, kw_only=True, omit_defaults=True):
    number: int
    said: datetime
    speaker: str | None = None
    source: str | None = None
    topic: str | None = None
    outdated: bool = False
    text: str
    later: tuple[_SaidLater, ...] = ()


class _ToAnswer(Struct, frozen=True, kw_only=True):
    question: str
    items: list[_ShownItem]


class _CitedAnswer(Struct, frozen=True, kw_only=True):
    answer: str
    numbers: list[int]


class Synthesis:
    def __init__(self, model: StructuredModel | None, *, within: float) -> None:
        """`within`: maximum seconds that the model may take for an answer."""
        self._model = model
        self._within = within

    async def answer(self, query: str, items: Sequence[RecallItem]) -> Answer:
        """Answer from the items, best first. If the model fails, quote the best item."""
        if not items:
            return Answer()
        size = sum(len(item.record.content) for item in items)
        quote_best = partial(read_text, _quote_best, size, query, items)
        if self._model is None:
            return await quote_best()
        shown = await read_text(_shown, size, query, items)
        try:
            cited = await self._model.answer_as(
                _CitedAnswer,
                instruction=INSTRUCTION,
                material=_ToAnswer(question=query[:ITEM_CHARACTERS], items=shown),
                within=self._within,
            )
        except ModelError as error:
            log.info("answer_not_synthesized", reason=str(error))
            return await quote_best()
        answer = cited.answer.strip()[:ALL_CHARACTERS]
        if not answer:
            return Answer(by_model=True)
        numbers = (item.number for item in shown if item.number in cited.numbers)
        ids = tuple(items[number - 1].record.id for number in numbers)
        if not ids:
            log.warning("answer_without_source", model=self._model.name)
            return await quote_best()
        return Answer(text=answer, ids=ids, by_model=True)


def _shown(query: str, items: Sequence[RecallItem]) -> list[_ShownItem]:
    """The items that fit into the prompt, of long ones what has most of the question."""
    shown: list[_ShownItem] = []
    left = ALL_CHARACTERS
    for number, item in enumerate(items, start=1):
        if left <= 0:
            break
        record = item.record
        text = record.content[passage(record.content, query, min(ITEM_CHARACTERS, left))]
        later = tuple(
            _SaidLater(
                said=statement.event_time,
                text=statement.content[:LATER_CHARACTERS],
                source=source_class_of(statement),
            )
            for statement in item.later
        )
        left -= len(text) + sum(len(statement.text) for statement in later)
        shown.append(
            _ShownItem(
                number=number,
                said=record.event_time,
                speaker=record.label or record.role,
                source=source_class_of(record),
                topic=record.topic,
                outdated=item.outdated_by is not None,
                text=text,
                later=later,
            )
        )
    return shown


def _quote_best(query: str, items: Sequence[RecallItem]) -> Answer:
    """Quote the best item that says something, with what was said later; none if it is far off."""
    saying = (item for item in items if item.later or without_questions(item.record.content))
    best = next(saying, None)
    if best is None or best.score < QUOTED:
        return Answer()
    lines = [cut_to_passage(best.record.content, query, ITEM_CHARACTERS)]
    for statement in best.later:
        said = statement.content[:LATER_CHARACTERS]
        lines.append(f"(later, {statement.event_time:%Y-%m-%d}) {said}")
    return Answer(text="\n".join(lines), ids=(best.record.id,))
