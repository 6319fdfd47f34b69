"""Whether the models that are configured answer."""

from collections.abc import Coroutine, Iterator
from typing import Any

from local.errors import ConfigError, Local2Error, RerankError, without_credentials
from local.examination.result import CheckResult, Verdict, broken
from local.llm.ollama import installed_models
from local.memory.recall.reranker import HttpReranker
from local.settings import MemorySettings, Settings


def check_models(settings: Settings) -> Iterator[Coroutine[Any, Any, CheckResult]]:
    """The checks of the models that are configured."""
    memory, chat = settings.memory, settings.generator
    yield _ollama(
        "chat model",
        chat.ollama_url,
        chat.model,
        needed=chat.chat == "ollama",
        without="the responder by rules answers",
    )
    yield _ollama(
        "embedding model",
        memory.ollama_url,
        memory.embedding_model,
        needed=memory.embedder == "ollama",
        without="MiniLM embeds",
    )
    if memory.reranker_url:
        yield _reranker(memory)
    for name, (model, without) in {
        "judge": (memory.judge_model, "facts are replaced by their topics only"),
        "synthesizer": (memory.synthesis_model, "the best item is the answer"),
        "query model": (memory.query_model, "questions are looked up as they are"),
        "reranking model": (memory.reranker_chat_model, "recall's own order stands"),
    }.items():
        if model and chat.chat != "rules":
            yield _ollama(name, chat.ollama_url, model, needed=False, without=without)


async def _ollama(name: str, url: str, model: str, *, needed: bool, without: str) -> CheckResult:
    """Whether Ollama has a model; it is a fault only if the configuration requires Ollama."""
    verdict: Verdict = "broken" if needed else "note"
    otherwise = "" if needed else f" Without it {without}."
    shown = without_credentials(url)
    try:
        models = await installed_models(url)
    except Local2Error as error:
        detail = error.message + otherwise
        return CheckResult(name=name, verdict=verdict, detail=detail, remedy="ollama serve")
    if model in models or f"{model}:latest" in models:
        return CheckResult(name=name, verdict="ok", detail=f"{model}, Ollama at {shown}")
    return CheckResult(
        name=name,
        verdict=verdict,
        detail=f"Ollama at {shown} does not have {model}.{otherwise}",
        remedy=f"ollama pull {model}",
    )


async def _reranker(memory: MemorySettings) -> CheckResult:
    """Whether the reranker answers; recall works without it."""
    try:
        reranker = await HttpReranker.open(
            str(memory.reranker_url),
            key=memory.reranker_key,
            model=memory.reranker_model,
            timeout=memory.reranker_timeout,
        )
        try:
            await reranker.rank("metal", ["Osmium is a metal."])
        finally:
            await reranker.close()
    except ConfigError as error:
        return broken("reranker", error)
    except RerankError as error:
        return CheckResult(
            name="reranker", verdict="note", detail=error.message, remedy=error.remedy
        )
    return CheckResult(name="reranker", verdict="ok", detail="it answers")
