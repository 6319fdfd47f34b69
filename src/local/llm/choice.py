"""Which chat model answers."""

import structlog

from local.errors import ModelError
from local.llm.chat import ChatModel
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
    """Open the chat model: with `auto` the one of Ollama if it is there, else the rules.

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
    return _chosen(chat_model, reason=f"Ollama at {ollama_url} has it")


def _chosen(chat_model: ChatModel, *, reason: str) -> ChatModel:
    log.info("chat_model_chosen", model=chat_model.name, reason=reason)
    return chat_model
