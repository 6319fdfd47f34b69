"""Which model answers in conversations, and which one answers with data.

With `auto` a machine without Ollama still has a stack that works: rules answer, and what only a
model can do is left out.
"""

import structlog

from local.errors import ModelError, without_credentials
from local.llm.models import ChatModel, StructuredModel
from local.llm.ollama import OllamaModel
from local.llm.rules import RulesModel
from local.settings import ChatChoice

log = structlog.get_logger()


async def choose_chat_model(
    preference: ChatChoice,
    *,
    model: str,
    temperature: float,
    context_size: int,
    ollama_url: str,
) -> ChatModel:
    """Open the chat model: with `auto` that of Ollama if it is there, else the rules.

    Raises:
        ConfigError: `ollama_url` is not a URL.
        ModelError: With `ollama`, there is no server, or it lacks a model that calls tools.
    """
    if preference == "rules":
        return _chosen(RulesModel(), reason="asked for")
    try:
        chat_model = await OllamaModel.open(
            model, temperature=temperature, context_size=context_size, url=ollama_url
        )
    except ModelError as error:
        if preference == "ollama":
            raise
        return _chosen(RulesModel(), reason=str(error))
    return _chosen(chat_model, reason=f"Ollama at {without_credentials(ollama_url)} has it")


def _chosen(chat_model: ChatModel, *, reason: str) -> ChatModel:
    log.info("chat_model_chosen", model=chat_model.name, reason=reason)
    return chat_model


async def open_structured_model(
    preference: ChatChoice, *, model: str, context_size: int, ollama_url: str
) -> StructuredModel | None:
    """Open the model that answers with data.

    None if none is wanted or, with `auto`, none is there.

    Args:
        preference: With `rules`, no model is asked for anything.
        model: Empty for none.
        context_size: That of the chat model if both are the same model. With another size Ollama
            would load it twice.
        ollama_url: Address of the server.

    Raises:
        ConfigError: `ollama_url` is not a URL.
        ModelError: With `ollama`, there is no server, or it lacks the model.
    """
    if preference == "rules" or not model:
        log.info("no_structured_model", reason="not asked for")
        return None
    try:
        opened = await OllamaModel.open(
            model, temperature=0, context_size=context_size, url=ollama_url, needs="completion"
        )
    except ModelError as error:
        if preference == "ollama":
            raise
        log.info("no_structured_model", reason=str(error))
        return None
    log.info("structured_model_chosen", model=opened.name)
    return opened
