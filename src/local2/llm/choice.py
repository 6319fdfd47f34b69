"""Chooses the model for conversations, and the models for structured answers.

With `auto`, the stack also works on a machine without any model: rules answer, and do the memory's
work. An endpoint is chosen even if it does not answer, since remote endpoints may be down for a
while: meanwhile chats fail with a reason, and rules do the memory's work.
"""

from typing import Literal

import structlog

from local2.endpoint.address import Endpoint, endpoint_of
from local2.errors import ModelError, without_credentials
from local2.llm.models import ChatModel, CountingModel
from local2.llm.openai import OpenAIModel
from local2.llm.rules import RulesModel
from local2.settings import GeneratorSettings, ModelChoice

log = structlog.get_logger()


def provider_of(settings: GeneratorSettings) -> Literal["ollama", "openai", "rules"]:
    """The provider that the settings select; with `auto`, it may turn out to be missing."""
    if settings.chat == "auto":
        return "openai" if settings.openai_url is not None else "ollama"
    return settings.chat


def chat_endpoint(settings: GeneratorSettings) -> Endpoint:
    """The endpoint that the settings name for chat.

    Raises:
        ConfigError: The settings name no endpoint, or an unusable one.
    """
    return endpoint_of(settings.openai_url, settings.openai_key, "config/generator.yaml")


async def choose_chat_model(settings: GeneratorSettings) -> ChatModel:
    """Open the chat model: with `auto`, the endpoint's if configured, else Ollama's, else rules.

    Raises:
        ConfigError: The address is not a URL, or the key is missing.
        ModelError: With `ollama`, there is no server, or it lacks a model that calls tools.
    """
    match provider_of(settings):
        case "rules":
            return _log_choice(RulesModel(), reason="asked for")
        case "openai":
            endpoint = chat_endpoint(settings)
            model = await OpenAIModel.open(
                settings.model, temperature=settings.temperature, endpoint=endpoint
            )
            try:
                problem = None if await model.is_available() else "The endpoint does not have it."
            except ModelError as error:
                problem = str(error)
            if problem:
                log.warning("chat_model_unavailable", model=model.name, reason=problem)
            return _log_choice(model, reason=f"of the endpoint {endpoint.shown}")
        case "ollama":
            # An eighth of a start's imports.
            from local2.llm.ollama import OllamaModel  # noqa: PLC0415

            shown = without_credentials(settings.ollama_url)
            try:
                ollama = await OllamaModel.open(
                    settings.model,
                    temperature=settings.temperature,
                    context_size=settings.context_size,
                    url=settings.ollama_url,
                )
            except ModelError as error:
                if settings.chat == "ollama":
                    raise
                return _log_choice(RulesModel(), reason=str(error))
            return _log_choice(ollama, reason=f"Ollama at {shown} has it")


def _log_choice(chat_model: ChatModel, *, reason: str) -> ChatModel:
    log.info("chat_model_chosen", model=chat_model.name, reason=reason)
    return chat_model


def chosen_model(choice: ModelChoice, settings: GeneratorSettings) -> str | None:
    """The name of the model that is chosen for a part of the memory's work, None for none.

    `settings` say where models are, and which is the chat model; with `rules`, there are none.
    """
    if choice in {"rules", "none"} or provider_of(settings) == "rules":
        return None
    return settings.model if choice == "auto" else choice


async def open_structured_model(settings: GeneratorSettings, model: str) -> CountingModel:
    """Open a model for structured answers.

    Args:
        settings: Where models are. The context size is that of the chat model: with another one,
            Ollama would load the same model twice.
        model: Name of the model.

    Raises:
        ConfigError: The address is not a URL, or the key is missing.
        ModelError: The server lacks the model, or is an Ollama that does not answer.
    """
    opened: CountingModel
    if provider_of(settings) == "ollama":
        from local2.llm.ollama import OllamaModel  # noqa: PLC0415

        opened = await OllamaModel.open(
            model,
            temperature=0,
            context_size=settings.context_size,
            url=settings.ollama_url,
            needs="completion",
        )
    else:
        opened = await OpenAIModel.open(model, temperature=0, endpoint=chat_endpoint(settings))
        try:
            is_there = await opened.is_available()
        except ModelError as error:  # it may be reachable later
            log.warning("structured_model_unavailable", model=model, reason=str(error))
        else:
            if not is_there:
                await opened.close()
                raise ModelError(f"The endpoint does not have the model {model}.")
    log.info("structured_model_chosen", model=opened.name)
    return opened
