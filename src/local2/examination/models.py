"""Checks that call the configured models."""

import asyncio
from collections.abc import Coroutine, Iterator
from pathlib import Path
from typing import Any

from local2.errors import ConfigError, Local2Error, ModelError, VectorError, without_credentials
from local2.llm.choice import chat_endpoint, chosen_model, provider_of
from local2.llm.openai import OpenAIModel
from local2.memory.recall.reranker import HttpReranker, RerankError
from local2.model_files import check_files
from local2.protocol.maintenance import CheckResult, Verdict
from local2.settings import GeneratorSettings, MemorySettings, Settings
from local2.stack.memory_models import choices_of
from local2.vectors.config import embeddings_endpoint
from local2.vectors.served import OpenAIEmbedder

START_OLLAMA = "ollama serve"
OF_THE_MEMORY = {
    "extraction": ("extraction model", "facts are extracted by rules"),
    "judging": ("judge", "facts are replaced only by facts of the same topic"),
    "queries": ("query model", "questions are searched for as they are"),
    "answers": ("synthesizer", "the best item is the answer"),
    "reranking": ("reranking model", "recall keeps its own order"),
}
"""What does each part of the memory's work, and what happens without it."""
PATIENCE = 10.0
"""Seconds in which an endpoint's model must answer with a word."""


def check_models(settings: Settings) -> Iterator[Coroutine[Any, Any, CheckResult]]:
    """Yield the checks of the configured models."""
    memory, chat = settings.memory, settings.generator
    yield _check_model(
        chat,
        "chat model",
        chat.model,
        needed=chat.chat == "ollama" or provider_of(chat) == "openai",
        without="the rule-based responder answers, and rules do the memory's work",
    )
    if memory.openai_url is not None or memory.embedder == "openai":
        yield _check_embeddings(memory)
    else:
        yield _check_ollama(
            "embedding model",
            memory.ollama_url,
            memory.embedding_model,
            needed=memory.embedder == "ollama",
            without="MiniLM embeds",
        )
    if memory.reranker_folder is not None:
        yield _check_cross_encoder(memory.reranker_folder)
    elif memory.reranker_url:
        yield _check_reranker(memory)
    for work, choice in choices_of(memory).items():
        model = chosen_model(choice, chat)
        if model is not None and model != chat.model:
            name, without = OF_THE_MEMORY[work]
            yield _check_model(chat, name, model, needed=False, without=without)


async def _check_model(
    chat: GeneratorSettings, name: str, model: str, *, needed: bool, without: str
) -> CheckResult:
    """Report whether a chat model answers at the server that the settings name."""
    if provider_of(chat) != "openai":
        return await _check_ollama(name, chat.ollama_url, model, needed=needed, without=without)
    verdict: Verdict = "broken" if needed else "note"
    try:
        opened = await OpenAIModel.open(model, temperature=0, endpoint=chat_endpoint(chat))
        try:
            await opened.try_out(within=PATIENCE)
        finally:
            await opened.close()
    except ConfigError as error:
        return CheckResult.broken(name, error)
    except ModelError as error:
        return CheckResult(name, verdict, error.message, remedy=error.remedy)
    shown = without_credentials(str(chat.openai_url))
    return CheckResult(name, "ok", f"{model}, of the endpoint {shown}")


async def _check_embeddings(memory: MemorySettings) -> CheckResult:
    """Report whether the endpoint embeds a text."""
    name = "embedding model"
    verdict: Verdict = "broken" if memory.embedder == "openai" else "note"
    try:
        endpoint = embeddings_endpoint(memory)
        embedder = await asyncio.to_thread(OpenAIEmbedder, endpoint, memory.embedding_model)
        try:
            dimensions = await asyncio.to_thread(lambda: embedder.dimensions)
        finally:
            embedder.close()
    except ConfigError as error:
        return CheckResult.broken(name, error)
    except VectorError as error:
        return CheckResult(name, verdict, error.message, remedy=error.remedy)
    detail = f"{memory.embedding_model}, of the endpoint {endpoint.shown}: {dimensions} dimensions"
    return CheckResult(name, "ok", detail)


async def _check_ollama(
    name: str, url: str, model: str, *, needed: bool, without: str
) -> CheckResult:
    """Report whether Ollama has a model; it is a fault only if the configuration requires it."""
    from local2.llm.ollama import installed_models  # noqa: PLC0415 - it imports ollama

    verdict: Verdict = "broken" if needed else "note"
    otherwise = "" if needed else f" Without it, {without}."
    shown = without_credentials(url)
    try:
        models = await installed_models(url)
    except Local2Error as error:
        detail = error.message + otherwise
        return CheckResult(name, verdict, detail, remedy=START_OLLAMA)
    if model in models or f"{model}:latest" in models:
        return CheckResult(name, "ok", f"{model}, Ollama at {shown}")
    return CheckResult(
        name,
        verdict,
        f"Ollama at {shown} does not have {model}.{otherwise}",
        remedy=f"ollama pull {model}",
    )


async def _check_cross_encoder(folder: Path) -> CheckResult:
    """Report whether the vector worker can load the reranker; recall works without it."""
    from local2.vectors.cross_encoder import CrossEncoder  # noqa: PLC0415 - it imports onnxruntime

    name = "reranker"
    try:
        await asyncio.to_thread(CrossEncoder.load, folder)
        digests = await asyncio.to_thread(check_files, folder)
    except VectorError as error:
        return CheckResult.broken(name, error)
    if digests is None:
        return CheckResult(name, "ok", f"in {folder}, which has no digests to compare it with")
    source = f"{digests.repository} at {digests.revision[:12]}"
    return CheckResult(name, "ok", f"in {folder}, as it was fetched: {source}")


async def _check_reranker(memory: MemorySettings) -> CheckResult:
    """Report whether the reranker answers; recall works without it."""
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
        return CheckResult.broken("reranker", error)
    except RerankError as error:
        return CheckResult("reranker", "note", error.message, remedy=error.remedy)
    return CheckResult("reranker", "ok", "it answers")
