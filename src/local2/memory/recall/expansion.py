"""Have a chat model suggest further words and topic keys that the answer to a question may have."""

from contextlib import suppress
from typing import Annotated

import structlog
from msgspec import Meta, Struct

from local2.errors import InvalidArgumentsError, ModelError
from local2.keys import TOPIC_RULE, checked_topic
from local2.llm.models import StructuredModel
from local2.protocol.tool import may_wait

MAX_KEYWORDS = 8
MAX_TOPICS = 5
QUESTION_CHARACTERS = 2_000
KEYWORD_CHARACTERS = 60
INSTRUCTION = f"""\
A memory is searched for what answers the question. Give up to {MAX_KEYWORDS} keywords that the \
remembered text may contain although the question does not: synonyms, names, more general and more \
particular words, in the language of the question. Give up to {MAX_TOPICS} topic keys under which \
the answer may be kept as a standing fact, or none. {TOPIC_RULE}
"Which editor do I use?": keywords IDE, Vim, Emacs, text, program; topics user.editor_preference, \
user.editor. Do not answer the question."""

log = structlog.get_logger()


class Expansion(Struct, frozen=True, kw_only=True):
    keywords: tuple[str, ...] = ()
    topics: tuple[str, ...] = ()


class _Question(Struct, frozen=True, kw_only=True):
    question: str


class _Suggestions(Struct, frozen=True, kw_only=True):
    """The bounds are told to the model, and kept by us: one too many is no wrong answer."""

    # The docstring is part of the schema that the model is given.
    keywords: Annotated[list[str], Meta(extra_json_schema={"maxItems": MAX_KEYWORDS})]
    topics: Annotated[list[str], Meta(extra_json_schema={"maxItems": MAX_TOPICS})]


class Expander:
    def __init__(self, model: StructuredModel, *, within: float) -> None:
        """`within`: maximum seconds that a search waits for the model."""
        self._model = model
        self._within = within

    async def expand(self, question: str) -> Expansion:
        """The model's suggestions; none if it fails, or if the caller waits less long."""
        if may_wait() < self._within:
            return Expansion()
        try:
            suggestions = await self._model.answer_as(
                _Suggestions,
                instruction=INSTRUCTION,
                material=_Question(question=question[:QUESTION_CHARACTERS]),
                within=self._within,
            )
        except ModelError as error:
            log.info("question_not_expanded", reason=str(error))
            return Expansion()
        keywords = dict.fromkeys(" ".join(word.split()) for word in suggestions.keywords)
        fitting = tuple(word for word in keywords if 0 < len(word) <= KEYWORD_CHARACTERS)
        topics = []
        for topic in dict.fromkeys(suggestions.topics):
            with suppress(InvalidArgumentsError):
                topics.append(checked_topic(topic))
        return Expansion(
            keywords=fitting[:MAX_KEYWORDS],
            topics=tuple(topics)[:MAX_TOPICS],
        )
