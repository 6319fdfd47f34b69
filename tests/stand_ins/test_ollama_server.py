"""The stand-in answers the real client as Ollama does."""

from collections.abc import AsyncIterator, Iterator
from math import hypot

import numpy as np
import pytest
from ollama import AsyncClient, ResponseError

from stand_ins.ollama_server import OllamaStandIn, Reply


@pytest.fixture
def server() -> Iterator[OllamaStandIn]:
    with OllamaStandIn() as stand_in:
        yield stand_in


@pytest.fixture
async def client(server: OllamaStandIn) -> AsyncIterator[AsyncClient]:
    async with AsyncClient(host=server.url) as ollama:
        yield ollama


async def test_the_client_lists_its_models(server: OllamaStandIn, client: AsyncClient) -> None:
    server.models = ["one:latest", "two:7b"]

    assert [m.model for m in (await client.list()).models] == ["one:latest", "two:7b"]


async def test_texts_that_share_words_or_stems_are_similar(client: AsyncClient) -> None:
    texts = ["Australian geography", "The capital of Australia is Canberra", "I like green tea"]

    question, related, other = (await client.embed("nomic-embed-text", texts)).embeddings

    assert hypot(*question) == pytest.approx(1)
    assert np.dot(question, related) > 0.2 > np.dot(question, other)


async def test_one_text_and_a_batch_get_the_same_vector(client: AsyncClient) -> None:
    single = (await client.embed("nomic-embed-text", "Elixir")).embeddings
    batch = (await client.embed("nomic-embed-text", ["Python", "Elixir", ""])).embeddings

    assert single == [batch[1]]
    assert [hypot(*vector) for vector in batch] == pytest.approx([1, 1, 1])


async def test_embedding_with_a_missing_model_is_a_404(client: AsyncClient) -> None:
    with pytest.raises(ResponseError, match="not found") as caught:
        await client.embed("no-such-model", "Elixir")

    assert caught.value.status_code == 404


async def test_a_scripted_failure_happens_once(server: OllamaStandIn, client: AsyncClient) -> None:
    server.fail_next(status=503, error="overloaded")

    with pytest.raises(ResponseError, match="overloaded"):
        await client.embed("nomic-embed-text", "Elixir")
    await client.embed("nomic-embed-text", "Elixir")

    assert [body["input"] for body in server.bodies("/api/embed")] == ["Elixir", "Elixir"]


async def test_a_chat_that_requests_json_has_a_separate_script(
    server: OllamaStandIn, client: AsyncClient
) -> None:
    server.script(Reply(content="Hello."))
    server.script_json({"number": 1}, Reply(content="no JSON"))
    messages = [
        {"role": "system", "content": "Count."},
        {"role": "user", "content": '{"text": "Count."}'},
    ]

    for_json = [await client.chat("gemma4", messages, format="json") for _ in range(3)]
    for_words = await client.chat("gemma4", messages)

    assert [answer.message.content for answer in for_json] == ['{"number":1}', "no JSON", "{}"]
    assert for_words.message.content == "Hello."
    assert server.materials() == 3 * [{"text": "Count."}]
