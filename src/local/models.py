"""Opens the models that the memory works with, as far as they are configured."""

from contextlib import AsyncExitStack

from local.llm.choice import open_structured_model
from local.llm.models import StructuredModel
from local.memory.extraction.items import Extractor
from local.memory.extraction.model import ModelExtractor
from local.memory.extraction.rules import RulesExtractor
from local.memory.recall.model import ModelReranker
from local.memory.recall.query import Expander
from local.memory.recall.recaller import RecallModels
from local.memory.recall.reranker import HttpReranker, Reranker
from local.memory.tenant import Models
from local.memory.upkeep.supersession import Judge
from local.settings import MemorySettings, Settings


async def open_models(resources: AsyncExitStack, settings: Settings) -> Models:
    """The models that rerank, read, judge, synthesize and analyse, as far as configured."""
    wanted = settings.memory
    reading = wanted.extraction_model if wanted.extractor == "model" else ""
    opened: dict[str, StructuredModel | None] = {}
    for name in (
        wanted.judge_model,
        wanted.synthesis_model,
        wanted.query_model,
        wanted.reranker_chat_model,
        reading,
    ):
        if name not in opened:
            opened[name] = await _structured_model(resources, settings, name)
    judge, query = opened[wanted.judge_model], opened[wanted.query_model]
    expander = Expander(query, within=wanted.query_timeout) if query else None
    reranker = await _reranker(resources, wanted, opened[wanted.reranker_chat_model])
    return Models(
        recall=RecallModels(reranker=reranker, expander=expander),
        extractor=_extractor(wanted, opened[reading]),
        judge=Judge(judge, within=wanted.judge_timeout) if judge else None,
        synthesizer=opened[wanted.synthesis_model],
    )


async def _reranker(
    resources: AsyncExitStack, wanted: MemorySettings, model: StructuredModel | None
) -> Reranker | None:
    """The cross-encoder, else the model that reranks, else none."""
    if wanted.reranker_url:
        reranker = await HttpReranker.open(
            wanted.reranker_url,
            key=wanted.reranker_key,
            model=wanted.reranker_model,
            timeout=wanted.reranker_timeout,
        )
        resources.push_async_callback(reranker.close)
        return reranker
    return ModelReranker(model, within=wanted.reranker_chat_timeout) if model else None


def _extractor(settings: MemorySettings, model: StructuredModel | None) -> Extractor | None:
    """Who reads what users say: the model where there is one, if it is wanted, else the rules."""
    if settings.extractor == "none":
        return None
    if model is None:
        return RulesExtractor()
    return ModelExtractor(model, within=settings.extraction_timeout)


async def _structured_model(
    resources: AsyncExitStack, settings: Settings, name: str
) -> StructuredModel | None:
    model = await open_structured_model(settings.generator, name)
    if model is not None:
        resources.push_async_callback(model.close)
    return model
