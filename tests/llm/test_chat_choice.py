"""Which models are chosen, and what the log says about the choice."""

import pytest

from local2.errors import ConfigError, ModelError
from local2.llm.choice import choose_chat_model, open_structured_model
from local2.llm.models import ChatModel, StructuredModel
from local2.settings import ChatChoice, GeneratorSettings
from own_logs import own_logs
from stand_ins.ollama_server import OllamaStandIn


async def choose(preference: ChatChoice, url: str) -> ChatModel:
    return await choose_chat_model(GeneratorSettings(chat=preference, ollama_url=url))


async def open_structured(
    preference: ChatChoice, url: str, model: str = "gemma4"
) -> StructuredModel | None:
    return await open_structured_model(GeneratorSettings(chat=preference, ollama_url=url), model)


@pytest.mark.parametrize("preference", ["auto", "ollama"])
async def test_ollama_is_chosen_if_it_has_the_model(
    ollama: OllamaStandIn, preference: ChatChoice
) -> None:
    with own_logs() as logs:
        model = await choose(preference, ollama.url)

    assert model.name == "gemma4"
    assert [(log["event"], log["model"]) for log in logs] == [("chat_model_chosen", "gemma4")]
    await model.close()


async def test_auto_falls_back_to_the_rules_without_a_server_and_logs_why(
    ollama: OllamaStandIn,
) -> None:
    ollama.stop()

    with own_logs() as logs:
        model = await choose("auto", ollama.url)

    assert model.name == "rules"
    assert f"No answer from Ollama at {ollama.url}" in logs[0]["reason"]


async def test_auto_falls_back_to_the_rules_without_the_model_and_logs_how_to_get_it(
    ollama: OllamaStandIn,
) -> None:
    ollama.models = ["nomic-embed-text:latest"]

    with own_logs() as logs:
        model = await choose("auto", ollama.url)

    assert model.name == "rules"
    assert "ollama pull gemma4" in logs[0]["reason"]


async def test_demanding_ollama_never_falls_back_to_the_rules(ollama: OllamaStandIn) -> None:
    ollama.models = []

    with pytest.raises(ModelError, match="ollama pull gemma4"):
        await choose("ollama", ollama.url)


async def test_demanding_the_rules_does_not_call_ollama(ollama: OllamaStandIn) -> None:
    model = await choose("rules", ollama.url)

    assert model.name == "rules"
    assert ollama.requests == []
    await model.close()


async def test_auto_does_not_hide_an_error_in_the_settings() -> None:
    with pytest.raises(ConfigError, match="not a URL"):
        await choose("auto", "http://localhost:eleven")


@pytest.mark.parametrize("preference", ["auto", "ollama"])
async def test_a_model_without_tools_can_give_structured_answers(
    ollama: OllamaStandIn, preference: ChatChoice
) -> None:
    ollama.capabilities = ["completion"]

    model = await open_structured(preference, ollama.url)

    assert model is not None
    assert model.name == "gemma4"
    await model.close()


@pytest.mark.parametrize(
    ("preference", "model"),
    [
        pytest.param("rules", "gemma4", id="no models at all"),
        pytest.param("auto", "", id="none named"),
        pytest.param("ollama", "", id="none named for Ollama"),
    ],
)
async def test_without_a_configured_structured_model_ollama_is_not_called(
    ollama: OllamaStandIn, preference: ChatChoice, model: str
) -> None:
    assert await open_structured(preference, ollama.url, model) is None
    assert ollama.requests == []


@pytest.mark.parametrize("preference", ["auto", "ollama"])
async def test_a_missing_structured_model_is_skipped_and_the_log_says_how_to_get_it(
    ollama: OllamaStandIn, preference: ChatChoice
) -> None:
    with own_logs() as logs:
        assert await open_structured(preference, ollama.url, "gemma4:e2b") is None

    assert "ollama pull gemma4:e2b" in logs[0]["reason"]
