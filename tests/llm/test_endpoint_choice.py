"""A configured endpoint is always chosen, whether or not it answers at the start."""

import pytest

from local2.errors import ConfigError, ModelError
from local2.llm.choice import choose_chat_model, open_structured_model
from local2.settings import ChatChoice, GeneratorSettings
from own_logs import own_logs
from stand_ins.openai_server import OpenAIStandIn

pytestmark = pytest.mark.usefixtures("quick_retries")


def settings(
    server: OpenAIStandIn, chat: ChatChoice = "openai", model: str = "gemma4"
) -> GeneratorSettings:
    return GeneratorSettings(chat=chat, model=model, openai_url=server.url)


@pytest.mark.parametrize("chat", ["auto", "openai"])
async def test_a_configured_endpoint_is_chosen(openai: OpenAIStandIn, chat: ChatChoice) -> None:
    with own_logs() as logs:
        model = await choose_chat_model(settings(openai, chat))
    await model.close()

    assert model.name == "gemma4"
    assert [(log["event"], log["reason"]) for log in logs] == [
        ("chat_model_chosen", f"of the endpoint {openai.url}")
    ]


async def test_demanding_an_endpoint_without_an_address_is_a_config_error() -> None:
    with pytest.raises(ConfigError, match=r"generator\.yaml names no endpoint"):
        await choose_chat_model(GeneratorSettings(chat="openai"))


async def test_an_endpoint_that_cannot_be_checked_is_chosen_with_a_warning(
    openai: OpenAIStandIn,
) -> None:
    with own_logs() as logs:
        missing = await choose_chat_model(settings(openai, model="other"))
        openai.stop()
        down = await choose_chat_model(settings(openai))
    for model in (missing, down):
        await model.close()

    reasons = [log["reason"] for log in logs if log["event"] == "chat_model_unavailable"]
    assert reasons[0] == "The endpoint does not have it."
    assert "No answer from" in reasons[1]


async def test_a_structured_model_that_the_endpoint_lacks_is_an_error(
    openai: OpenAIStandIn,
) -> None:
    with pytest.raises(ModelError, match="does not have the model other"):
        await open_structured_model(settings(openai), "other")


@pytest.mark.parametrize("trouble", ["key", "down"])
async def test_an_unreachable_model_is_opened_because_it_may_be_reachable_later(
    openai: OpenAIStandIn, trouble: str
) -> None:
    if trouble == "down":
        openai.stop()
    openai.key = "another"

    with own_logs() as logs:
        model = await open_structured_model(settings(openai), "gemma4")

    await model.close()
    assert logs[0]["event"] == "structured_model_unavailable"
