"""Open the models that the memory uses: they rerank, extract, judge, answer and analyse queries."""

from contextlib import AsyncExitStack
from functools import partial

from local2.bus.vector_client import VectorClient
from local2.llm.choice import open_structured_model
from local2.llm.models import StructuredModel
from local2.memory.extraction.items import Extractor
from local2.memory.extraction.model import ModelExtractor
from local2.memory.extraction.rules import RulesExtractor
from local2.memory.recall.model import ModelReranker
from local2.memory.recall.query import Expander
from local2.memory.recall.recaller import RecallModels
from local2.memory.recall.reranker import HttpReranker, Reranker, WorkerReranker
from local2.memory.tenant import Models
from local2.memory.upkeep.supersession import Judge
from local2.settings import Settings


async def open_models(
    resources: AsyncExitStack, settings: Settings, vectors: VectorClient
) -> Models:
    """Open each configured model once, though it may have several tasks.

    A cross-encoder that is configured reranks rather than a chat model, the vector worker's rather
    than a server's.
    """
    memory = settings.memory
    opened: dict[str, StructuredModel | None] = {}

    async def open_once(name: str) -> StructuredModel | None:
        if name not in opened:
            opened[name] = model = await open_structured_model(settings.generator, name)
            if model is not None:
                resources.push_async_callback(model.close)
        return opened[name]

    judge = await open_once(memory.judge_model)
    synthesizer = await open_once(memory.synthesis_model)
    query = await open_once(memory.query_model)

    reranker: Reranker | None = None
    reranking = await open_once(memory.reranker_chat_model)
    if memory.reranker_folder is not None:
        reranker = WorkerReranker(
            partial(vectors.rerank, within=memory.reranker_timeout),
            model=memory.reranker_folder.name,
        )
    elif memory.reranker_url:
        reranker = served = await HttpReranker.open(
            memory.reranker_url,
            key=memory.reranker_key,
            model=memory.reranker_model,
            timeout=memory.reranker_timeout,
        )
        resources.push_async_callback(served.close)
    elif reranking:
        reranker = ModelReranker(reranking, within=memory.reranker_chat_timeout)

    extractor: Extractor | None = None
    if memory.extractor != "none":
        extractor = RulesExtractor()
    if memory.extractor == "model":
        extracting = await open_once(memory.extraction_model)
        if extracting:
            extractor = ModelExtractor(extracting, within=memory.extraction_timeout)

    return Models(
        recall=RecallModels(
            reranker=reranker,
            expander=Expander(query, within=memory.query_timeout) if query else None,
        ),
        extractor=extractor,
        judge=Judge(judge, within=memory.judge_timeout) if judge else None,
        synthesizer=synthesizer,
    )
