"""A model that reads what was found, and puts what answers the question first."""

import time
from collections.abc import Callable, Sequence

from msgspec import Struct

from local.errors import ModelError, RerankError
from local.llm.models import StructuredModel
from local.memory.recall.reranker import QUERY_CHARACTERS, Circuit, RerankedDocument

DOCUMENT_CHARACTERS = 600
"""Of each of twenty: some 3,000 tokens, of the 8,192 that a model sees by default."""
INSTRUCTION = """\
Put the numbered memories into order for the question: first those that answer it, then those that \
help to, and last what has nothing to do with it. Answer with their numbers, each once."""


class _Memory(Struct, frozen=True, kw_only=True):
    number: int
    text: str


class _Question(Struct, frozen=True, kw_only=True):
    question: str
    memories: list[_Memory]


class _Order(Struct, frozen=True, kw_only=True):
    numbers: list[int]


class ModelReranker:
    """It gives an order and no scores. After three failures in a row it is left alone a while."""

    def __init__(
        self,
        model: StructuredModel,
        *,
        within: float,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """`within`: seconds that a search waits for the model."""
        self._model = model
        self._within = within
        self._circuit = Circuit(clock)

    async def rank(self, query: str, documents: Sequence[str]) -> list[RerankedDocument]:
        """Return all documents, best first; those the model left out follow in their order.

        Raises:
            RerankError: The model does not answer in time or not with an order, or the circuit is
                open.
        """
        if not documents:
            return []
        shown = [
            _Memory(number=number, text=document[:DOCUMENT_CHARACTERS])
            for number, document in enumerate(documents, start=1)
        ]
        with self._circuit.attempt():
            numbers = await self._ask(_Question(question=query[:QUERY_CHARACTERS], memories=shown))
            return _ranking(numbers, len(documents))

    async def _ask(self, question: _Question) -> list[int]:
        try:
            order = await self._model.answer_as(
                _Order, instruction=INSTRUCTION, material=question, within=self._within
            )
        except ModelError as error:
            raise RerankError(f"The reranking model gave no order: {error.message}") from error
        return order.numbers


def _ranking(numbers: Sequence[int], count: int) -> list[RerankedDocument]:
    chosen = [number - 1 for number in dict.fromkeys(numbers) if 0 < number <= count]
    if not chosen:
        raise RerankError("The reranking model's answer names none of the memories.")
    left_out = sorted(set(range(count)).difference(chosen))
    return [RerankedDocument(position, None) for position in chosen + left_out]
