"""mem0's official client works unchanged against `local2 serve`."""

import asyncio
import importlib
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from http_servers import HttpServer, call

TUNA = "My cat likes tuna."
TRAIN = "The train leaves at nine."


@pytest.fixture(scope="module")
def sdk(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    """mem0's package, which reports its use and keeps a file unless this is set before its import.

    It is imported late, since every test process would import it otherwise.
    """
    with pytest.MonkeyPatch.context() as environment, warnings.catch_warnings():
        environment.setenv("MEM0_TELEMETRY", "False")
        environment.setenv("MEM0_DIR", str(tmp_path_factory.mktemp("mem0")))
        warnings.simplefilter("ignore")  # of its own imports
        yield importlib.import_module("mem0")


@pytest.fixture
def mem0(sdk: Any, server: HttpServer) -> Iterator[Any]:
    token = Path(server.token_is_in).read_text().strip()
    client = sdk.MemoryClient(api_key=token, host=f"{server.url}/mem0")
    yield client
    client.client.close()


def test_what_is_added_is_found_listed_changed_and_deleted(mem0: Any) -> None:
    (added,) = mem0.add(TUNA, user_id="alex")["results"]
    assert (added["memory"], added["event"]) == (TUNA, "ADD")
    assert mem0.add(TUNA, user_id="alex")["results"][0]["event"] == "NONE"

    mine = {"user_id": "alex"}
    (found,) = mem0.search("What does the cat like?", filters=mine)["results"]
    assert (found["id"], found["memory"], found["user_id"]) == (added["id"], TUNA, "alex")
    assert mem0.search("What does the cat like?", filters={"user_id": "bob"})["results"] == []
    assert [memory["id"] for memory in mem0.get_all(filters=mine)["results"]] == [added["id"]]

    salmon = "My cat likes salmon."
    changed = mem0.update(added["id"], text=salmon)
    assert changed["memory"] == salmon
    assert mem0.get(added["id"])["memory"] == mem0.get(changed["id"])["memory"] == salmon
    events = [(event["event"], event["new_memory"]) for event in mem0.history(added["id"])]
    assert events == [("ADD", TUNA), ("UPDATE", salmon)]

    mem0.delete(added["id"])
    assert mem0.get_all(filters=mine)["count"] == 0
    with pytest.raises(Exception, match="no memory with this id") as missing:
        mem0.get(changed["id"])
    assert type(missing.value).__name__ == "MemoryNotFoundError"


def test_conversations_agents_and_pages_are_filtered(mem0: Any) -> None:
    messages = [{"role": "user", "content": TRAIN}, {"role": "assistant", "content": "Noted."}]
    mem0.add(messages, user_id="cleo", run_id="monday", agent_id="clerk", metadata={"a": 1})
    mem0.add("A bus leaves at ten.", filters={"user_id": "cleo", "run_id": "tuesday"})

    monday = {"AND": [{"user_id": "cleo"}, {"run_id": "monday"}]}
    found = mem0.search("When does it leave?", filters=monday)["results"]
    assert TRAIN in [memory["memory"] for memory in found]
    assert {memory["run_id"] for memory in found} == {"monday"}
    assert mem0.get_all(filters=monday)["count"] == 2
    page = mem0.get_all(filters={"user_id": "cleo"}, page=2, page_size=2)
    assert (page["count"], len(page["results"]), page["next"]) == (3, 1, None)
    assert page["previous"].endswith("?page_size=2&page=1")


def test_an_updated_memory_is_still_its_agents(mem0: Any) -> None:
    (added,) = mem0.add(TRAIN, user_id="finn", agent_id="clerk", run_id="monday")["results"]

    late = "The train leaves at ten."
    assert mem0.update(added["id"], text=late)["agent_id"] == "clerk"
    for whose in ({"agent_id": "clerk"}, {"run_id": "monday"}):
        listed = mem0.get_all(filters={"user_id": "finn", **whose})["results"]
        assert [memory["memory"] for memory in listed] == [late]


@pytest.mark.parametrize(
    ("refused", "problem"),
    [
        (" \n", r"The text is blank - at `messages\[1\]\.content`"),
        ("x" * 65_537, r"length <= 65536 - at `messages\[1\]\.content`"),
    ],
)
def test_nothing_is_stored_of_a_call_with_a_message_that_is_refused(
    mem0: Any, refused: str, problem: str
) -> None:
    messages = [{"role": "user", "content": TRAIN}, {"role": "user", "content": refused}]

    with pytest.raises(Exception, match=problem):
        mem0.add(messages, user_id="emil")
    assert mem0.get_all(filters={"user_id": "emil"})["count"] == 0


def test_the_asynchronous_client_does_the_same(sdk: Any, server: HttpServer) -> None:
    async def use() -> None:
        token = Path(server.token_is_in).read_text().strip()
        url = f"{server.url}/mem0"
        async with sdk.AsyncMemoryClient(api_key=token, host=url) as client:
            mine = {"user_id": "gwen"}
            told = [f"Box {number} holds spoons." for number in range(20)]
            await asyncio.gather(*(client.add(text, user_id="gwen") for text in told))
            listed = (await client.get_all(filters=mine))["results"]
            assert sorted(memory["memory"] for memory in listed) == sorted(told)

            (found, *_) = (await client.search("What does box 7 hold?", filters=mine))["results"]
            assert found["memory"] == told[7]
            changed = await client.update(found["id"], text="Box 7 holds forks.")
            assert (await client.get(found["id"]))["memory"] == changed["memory"]
            assert len(await client.history(found["id"])) == 2
            await client.delete(found["id"])
            assert (await client.get_all(filters=mine))["count"] == 19

    asyncio.run(use())


def test_names_with_any_characters_own_their_memories(mem0: Any, server: HttpServer) -> None:
    (added,) = mem0.add("Jürgen skis.", user_id="a/b=%41@Jürgen")["results"]

    assert mem0.get(added["id"])["user_id"] == "a/b=%41@Jürgen"
    with server.client(**{"Local2-User": "a%2Fb=%2541%40J%C3%BCrgen"}) as client:
        written = client.get(
            f"/mem0/v1/memories/{added['id']}/"
        )  # by a client that encodes no path
        assert written.json()["user_id"] == "a/b=%41@Jürgen"
        assert "Jürgen skis." in call(client, "recall", query="Who skis?")["content"]


def test_what_is_not_served_is_refused_and_not_ignored(
    sdk: Any, mem0: Any, server: HttpServer
) -> None:
    (added,) = mem0.add(TRAIN, user_id="dora")["results"]

    refusals: list[Callable[[], object]] = [
        lambda: mem0.search("trains", filters={"user_id": "dora", "categories": ["travel"]}),
        lambda: mem0.search("trains", filters={"OR": [{"user_id": "dora"}, {"user_id": "bob"}]}),
        lambda: mem0.add(TRAIN, user_id="dora", expiration_date="2030-01-01"),
        lambda: mem0.update(added["id"], metadata={"a": 1}),
    ]
    for refused in refusals:
        with pytest.raises(Exception, match=r"filters|unknown field") as problem:
            refused()
        assert type(problem.value).__name__ == "ValidationError"
    with pytest.raises(Exception, match="Expected `int`, got `str` - at `top_k`"):
        mem0.search("trains", filters={"user_id": "dora"}, top_k="many")
    with httpx.Client() as client, pytest.raises(ValueError, match="token"):
        sdk.MemoryClient(api_key="another", host=f"{server.url}/mem0", client=client)
