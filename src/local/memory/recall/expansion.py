"""Further words and topic keys under which the answer to a question may be remembered."""

from collections.abc import Iterable, Iterator
from typing import Annotated

import structlog
from msgspec import Meta, Struct

from local.errors import InvalidArgumentsError, ModelError
from local.ledger.records import TOPIC_RULE, checked_topic
from local.llm.models import StructuredModel

MOST_KEYWORDS = 8
MOST_TOPICS = 5
QUESTION_CHARACTERS = 2_000
KEYWORD_CHARACTERS = 60

INSTRUCTION = f"""\
A memory is searched for what answers the question. Give up to {MOST_KEYWORDS} keywords that the \
remembered text may contain although the question does not: synonyms, names, more general and more \
particular words, in the language of the question. Give up to {MOST_TOPICS} topic keys under which \
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

    keywords: Annotated[list[str], Meta(extra_json_schema={"maxItems": MOST_KEYWORDS})]
    topics: Annotated[list[str], Meta(extra_json_schema={"maxItems": MOST_TOPICS})]


class Expander:
    def __init__(self, model: StructuredModel, *, within: float) -> None:
        """`within`: seconds that a search waits for the model."""
        self._model = model
        self._within = within

    async def expand(self, question: str) -> Expansion:
        """What the model suggests; an empty expansion where it does not answer."""
        try:
            suggestions = await self._model.answer_as(
                _Suggestions,
                instruction=INSTRUCTION,
                material=_Question(question=question[:QUESTION_CHARACTERS]),
                within=self._within,
            )
        except ModelError as error:
            log.warning("question_not_expanded", reason=str(error))
            return Expansion()
        return Expansion(
            keywords=tuple(_keywords(suggestions.keywords))[:MOST_KEYWORDS],
            topics=tuple(_topics(suggestions.topics))[:MOST_TOPICS],
        )


def _keywords(suggested: Iterable[str]) -> Iterator[str]:
    for keyword in dict.fromkeys(" ".join(word.split()) for word in suggested):
        if 0 < len(keyword) <= KEYWORD_CHARACTERS:
            yield keyword


def _topics(suggested: Iterable[str]) -> Iterator[str]:
    """Those that follow the rule for topics: a model does not always."""
    for topic in dict.fromkeys(suggested):
        try:
            yield checked_topic(topic)
        except InvalidArgumentsError:
            continue
