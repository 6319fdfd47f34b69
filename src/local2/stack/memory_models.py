"""Open the models that memories use: they extract, judge, read questions, answer and rerank."""

from collections.abc import Mapping
from contextlib import AsyncExitStack
from functools import partial

import structlog
from msgspec import Struct
from msgspec.structs import replace

from local2.bus.vector_client import VectorRequests
from local2.errors import ModelError
from local2.llm.budget import BudgetedModel, ModelBudget
from local2.llm.choice import chosen_model, open_structured_model
from local2.llm.models import CountingModel
from local2.memory.extraction.extractor import Extractor
from local2.memory.extraction.model import ModelExtractor
from local2.memory.extraction.rules import RulesExtractor
from local2.memory.recall.expansion import Expander
from local2.memory.recall.recaller import RecallModels
from local2.memory.recall.reranker import HttpReranker, ModelReranker, Reranker, WorkerReranker
from local2.memory.tenant import Models
from local2.memory.upkeep.supersession import Judge
from local2.protocol.maintenance import ModelStatus, ModelUse
from local2.settings import MemorySettings, ModelChoice, Settings

BUDGETS = "model-budgets"
"""The folder of the files in which the calls of each tenant's models are counted."""

log = structlog.get_logger()


def choices_of(memory: MemorySettings) -> dict[str, ModelChoice]:
    """What the settings choose for each part of the memory's work."""
    choices = {
        "extraction": memory.extraction_model,
        "judging": memory.judge_model,
        "queries": memory.query_model,
        "answers": memory.synthesis_model,
    }
    cross_encoder = memory.reranker_url or memory.reranker_folder
    if not cross_encoder and memory.reranker_chat_model not in {"none", "rules"}:
        choices["reranking"] = memory.reranker_chat_model
    return choices


class SharedModels(Struct, frozen=True, kw_only=True):
    """The models that all tenants share; each has its own budget for asking them.

    `missing` says why models of the settings could not be opened.
    """

    settings: Settings
    opened: Mapping[str, CountingModel]
    missing: Mapping[str, str]
    reranker: Reranker | None

    async def of(self, tenant: str) -> Models:
        """The models as a tenant's memory uses them."""
        memory, limits = self.settings.memory, self.settings.limits
        budget = await ModelBudget.open(
            memory.data_dir / BUDGETS / f"{tenant}.json",
            calls=limits.tenant_model_calls,
            tokens=limits.tenant_model_tokens,
        )
        asked: dict[str, BudgetedModel] = {}
        uses: dict[str, ModelUse] = {}
        for work, choice in choices_of(memory).items():
            name = chosen_model(choice, self.settings.generator)
            if name is not None and name in self.opened:
                asked[work] = BudgetedModel(self.opened[name], budget)
                uses[work] = ModelUse(work=work, by=name)
            else:
                by = "none" if choice == "none" else "rules"
                # Missed only if somebody asked for a model, instead of leaving it to what is there.
                generator = self.settings.generator
                is_asked_for = (
                    choice != "auto" or generator.chat != "auto" or generator.openai_url is not None
                )
                problem = self.missing[name] if name and is_asked_for else None
                uses[work] = ModelUse(work=work, by=by, problem=problem)

        def status() -> ModelStatus:
            now = {
                work: replace(uses[work], problem=model.problem) for work, model in asked.items()
            }
            return ModelStatus(
                uses=list({**uses, **now}.values()),
                calls=budget.used.calls,
                max_calls=budget.calls,
                tokens=budget.used.tokens,
                max_tokens=budget.tokens,
            )

        extractor: Extractor | None = None
        if memory.extraction_model != "none":
            extractor = RulesExtractor()
            if (reading := asked.get("extraction")) is not None:
                extractor = ModelExtractor(
                    reading, within=memory.extraction_timeout, otherwise=extractor
                )
        reranker = self.reranker
        if (reranking := asked.get("reranking")) is not None:
            reranker = ModelReranker(reranking, within=memory.reranker_chat_timeout)
        judging, querying = asked.get("judging"), asked.get("queries")
        return Models(
            recall=RecallModels(
                reranker=reranker,
                expander=Expander(querying, within=memory.query_timeout) if querying else None,
            ),
            extractor=extractor,
            judge=Judge(judging, within=memory.judge_timeout) if judging else None,
            synthesizer=asked.get("answers"),
            status=status,
        )


async def open_models(
    resources: AsyncExitStack, settings: Settings, vectors: VectorRequests
) -> SharedModels:
    """Open each model that the settings choose once, though it may have several tasks."""
    memory, generator = settings.memory, settings.generator
    opened: dict[str, CountingModel] = {}
    missing: dict[str, str] = {}
    for choice in choices_of(memory).values():
        name = chosen_model(choice, generator)
        if name is None or name in opened or name in missing:
            continue
        try:
            opened[name] = model = await open_structured_model(generator, name)
        except ModelError as error:
            log.info("no_structured_model", model=name, reason=str(error))
            missing[name] = str(error)
        else:
            resources.push_async_callback(model.close)
    # A cross-encoder reranks rather than a chat model; the vector worker's comes before a server's.
    reranker: Reranker | None = None
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
    return SharedModels(settings=settings, opened=opened, missing=missing, reranker=reranker)
