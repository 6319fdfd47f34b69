"""Structured answers from OpenAI-compatible endpoints, in the strictest form that each accepts."""

import json
from collections.abc import AsyncIterator

import pytest

from baskets import BASKET, Basket, list_fruits
from local2.endpoint.address import Endpoint
from local2.errors import ModelError, ModelRefusedError, PromptTooLargeError
from local2.llm.openai import OpenAIModel
from stand_ins.ollama_server import Reply
from stand_ins.openai_server import Failure, OpenAIStandIn

pytestmark = pytest.mark.usefixtures("quick_retries")
CHAT = "chat/completions"


@pytest.fixture
async def model(openai: OpenAIStandIn) -> AsyncIterator[OpenAIModel]:
    endpoint = Endpoint(url=openai.url, settings="config/generator.yaml")
    opened = await OpenAIModel.open("gemma4", temperature=0.7, endpoint=endpoint)
    yield opened
    await opened.close()


async def test_the_schema_is_sent_in_the_form_that_strict_output_requires(
    openai: OpenAIStandIn, model: OpenAIModel
) -> None:
    openai.script_json(BASKET)

    assert await list_fruits(model) == BASKET

    (body,) = openai.bodies(CHAT)
    response_format = body["response_format"]
    assert (response_format["type"], response_format["json_schema"]["strict"]) == (
        "json_schema",
        True,
    )
    assert body["temperature"] == 0
    basket = response_format["json_schema"]["schema"]
    fruit = basket["properties"]["fruits"]["items"]
    for each in (basket, fruit):
        assert each["additionalProperties"] is False
        assert each["required"] == list(each["properties"])
    assert fruit["properties"]["ripe"] == {"enum": ["no", "yes"], "type": "string"}
    assert not {"$ref", "default"} & set(json.dumps(basket).split('"'))


@pytest.mark.parametrize(
    ("refused", "form"),
    [
        pytest.param({"json_schema"}, {"type": "json_object"}, id="no schema"),
        pytest.param({"json_schema", "json_object"}, None, id="no JSON"),
    ],
)
async def test_a_refused_form_is_replaced_and_not_tried_again(
    openai: OpenAIStandIn, model: OpenAIModel, refused: set[str], form: object
) -> None:
    openai.refuses = refused
    openai.script_json(BASKET, Reply(content=f"Here:\n```json\n{json.dumps({'fruits': []})}\n```"))

    assert [await list_fruits(model), await list_fruits(model)] == [BASKET, Basket(fruits=[])]

    bodies = openai.bodies(CHAT)
    assert len(bodies) == len(refused) + 2
    assert [body.get("response_format") for body in bodies[-2:]] == [form, form]


async def test_a_temporary_failure_is_retried_within_the_time_limit(
    openai: OpenAIStandIn, model: OpenAIModel
) -> None:
    openai.fail_next(
        Failure(status=503), Failure(status=429, headers={"Retry-After-Ms": "20"}), Failure()
    )
    openai.script_json(BASKET)

    assert await list_fruits(model) == BASKET
    assert len(openai.requests) == 4


async def test_after_four_failures_the_error_is_temporary(
    openai: OpenAIStandIn, model: OpenAIModel
) -> None:
    openai.fail_next(*4 * [Failure(status=500, message="out of memory")])

    with pytest.raises(ModelError, match="out of memory") as caught:
        await list_fruits(model)

    assert not isinstance(caught.value, ModelRefusedError)
    assert "out of memory" not in caught.value.logged
    assert len(openai.requests) == 4


async def test_a_pause_beyond_the_time_limit_is_an_error_that_says_when_to_retry(
    openai: OpenAIStandIn, model: OpenAIModel
) -> None:
    openai.fail_next(Failure(status=429, headers={"Retry-After": "60"}))

    for _ in range(2):
        with pytest.raises(ModelError, match=r"sent in \d+ s") as caught:
            await list_fruits(model)
        assert caught.value.retry_after == pytest.approx(60, abs=30)

    assert len(openai.requests) == 1


@pytest.mark.parametrize("raw", [b"<html>", b"[]", b'{"choices": 7}', b'{"choices": [{"x"'])
async def test_an_unreadable_reply_is_a_temporary_error(
    openai: OpenAIStandIn, model: OpenAIModel, raw: bytes
) -> None:
    openai.script_json(Reply(raw=raw))

    with pytest.raises(ModelError, match="cannot be read") as caught:
        await list_fruits(model)

    assert type(caught.value) is ModelError
    assert caught.value.remedy


async def test_material_that_is_too_large_does_not_change_the_form(
    openai: OpenAIStandIn, model: OpenAIModel
) -> None:
    openai.fail_next(Failure(status=400, message="maximum context length is 8 tokens"))

    with pytest.raises(PromptTooLargeError):
        await list_fruits(model)

    assert len(openai.requests) == 1
