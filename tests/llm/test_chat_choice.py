"""Which models are chosen, and what the log says about the choice."""

import pytest

from local2.errors import ConfigError, ModelError
from local2.llm.choice import choose_chat_model, chosen_model, open_structured_model
from local2.llm.models import ChatModel, CountingModel
from local2.settings import ChatChoice, GeneratorSettings
from own_logs import own_logs
from stand_ins.ollama_server import OllamaStandIn


async def choose(preference: ChatChoice, url: str) -> ChatModel:
    return await choose_chat_model(GeneratorSettings(chat=preference, ollama_url=url))


async def open_structured(preference: ChatChoice, url: str, model: str = "gemma4") -> CountingModel:
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


@pytest.mark.parametrize(
    ("is_down", "reason"), [(True, "No answer from Ollama at {url}"), (False, "ollama pull gemma4")]
)
async def test_auto_falls_back_to_the_rules_without_the_model_and_logs_why(
    ollama: OllamaStandIn, is_down: bool, reason: str
) -> None:
    ollama.models = ["nomic-embed-text:latest"]
    if is_down:
        ollama.stop()

    with own_logs() as logs:
        model = await choose("auto", ollama.url)

    assert model.name == "rules"
    assert reason.format(url=ollama.url) in logs[0]["reason"]


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

    assert model.name == "gemma4"
    await model.close()


@pytest.mark.parametrize(
    ("preference", "choice", "name"),
    [
        pytest.param("auto", "auto", "qwen3", id="the chat model"),
        pytest.param("ollama", "gemma4:e2b", "gemma4:e2b", id="another one"),
        pytest.param("auto", "rules", None, id="rules"),
        pytest.param("auto", "none", None, id="nothing"),
        pytest.param("rules", "auto", None, id="without a chat model"),
        pytest.param("rules", "gemma4", None, id="no models at all"),
    ],
)
def test_a_part_of_the_memory_has_the_chat_model_another_or_none(
    preference: ChatChoice, choice: str, name: str | None
) -> None:
    assert chosen_model(choice, GeneratorSettings(chat=preference, model="qwen3")) == name


@pytest.mark.parametrize("preference", ["auto", "ollama"])
async def test_a_missing_structured_model_is_an_error_that_says_how_to_get_it(
    ollama: OllamaStandIn, preference: ChatChoice
) -> None:
    with pytest.raises(ModelError) as missing:
        await open_structured(preference, ollama.url, "gemma4:e2b")

    assert "ollama pull gemma4:e2b" in str(missing.value)
