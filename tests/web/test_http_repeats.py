"""A repeated request with the same `Idempotency-Key` gets the first answer, and does nothing."""

import asyncio

import httpx
import pytest

from commands import Served
from http_servers import HttpServer, call, post, problem, team_tool
from local2.errors import UnavailableError
from local2.web import repeats
from local2.web.answers import HttpAnswer
from local2.web.repeats import REPLAYED, Repeats
from waiting import eventually

JOT = "/v1/tools/jot"


async def test_the_same_key_twice_acts_once(stack: Served, ada: httpx.Client) -> None:
    async with team_tool(stack) as notes:
        first = await post(ada, JOT, key="k1", text="x")
        again = await post(ada, JOT, key="k1", text="x")
        other = await post(ada, JOT, key="k2", text="x")

    assert first.content == again.content == other.content
    assert (REPLAYED in first.headers, REPLAYED in again.headers) == (False, True)
    assert len(notes.noted) == 2


def test_an_old_value_that_is_sent_again_does_not_replace_a_newer_one(ada: httpx.Client) -> None:
    old = {"topic": "user.team", "content": "Blue"}
    headers = {"Idempotency-Key": "team-1"}
    ada.post("/v1/tools/save_topic", json=old, headers=headers)
    call(ada, "save_topic", topic="user.team", content="Red")
    again = ada.post("/v1/tools/save_topic", json=old, headers=headers)

    assert again.json()["data"]["was_new"]
    assert call(ada, "recall_topic", topic="user.team")["data"]["content"] == "Red"


def test_the_same_request_may_be_written_in_another_way(ada: httpx.Client) -> None:
    headers = {"Idempotency-Key": "port-1", "Content-Type": "application/json"}
    bodies = (
        b'{"topic": "user.port", "content": "K\\u00f6ln"}',
        '{"content":"Köln","topic":"user.port"}\n'.encode(),
    )
    first, again = (
        ada.post("/v1/tools/save_topic", content=body, headers=headers) for body in bodies
    )

    assert first.status_code == 200
    assert (again.content, again.headers.get(REPLAYED)) == (first.content, "true")


def test_two_keys_of_one_request_are_refused(ada: httpx.Client) -> None:
    topic = {"topic": "user.town", "content": "Bath"}
    keys = [("Idempotency-Key", "town-1"), ("Idempotency-Key", "town-2")]

    assert problem(ada.post("/v1/tools/save_topic", json=topic, headers=keys))[0] == 400
    assert not call(ada, "recall_topic", topic="user.town")["data"]["found"]


def test_an_erasure_is_repeated_with_its_receipt(ada: httpx.Client) -> None:
    id_ = call(ada, "remember_fact", content="Ada has a boat.", scope="user")["data"]["id"]
    headers = {"Idempotency-Key": f"erase {id_}"}
    answers = [ada.delete(f"/v1/memories/{id_}", headers=headers) for _ in range(2)]

    assert [answer.json()["erased"] for answer in answers] == [{"facts": 1}] * 2


async def test_what_was_erased_is_not_in_a_kept_answer(ada: httpx.Client) -> None:
    saved = await post(ada, "/v1/tools/remember_fact", content="Ada owns a kayak.", scope="user")
    path = f"/v1/memories/{saved.json()['data']['id']}"
    topic = {"topic_or_id": saved.json()["data"]["id"]}
    before = await post(ada, "/v1/tools/memory_history", key="kayak", **topic)
    await asyncio.to_thread(ada.delete, path)

    async def is_dropped() -> bool:
        again = await post(ada, "/v1/tools/memory_history", key="kayak", **topic)
        return "kayak" not in again.text

    assert "kayak" in before.text
    await eventually(is_dropped)


async def test_requests_at_the_same_time_act_once(stack: Served, ada: httpx.Client) -> None:
    async with team_tool(stack) as notes:
        notes.may_finish.clear()
        requests = [asyncio.create_task(post(ada, JOT, key="k3", text="x")) for _ in range(3)]
        await eventually(lambda: bool(notes.could_wait))  # the first one has arrived
        notes.may_finish.set()
        answers = await asyncio.gather(*requests)

    assert {answer.content for answer in answers} == {answers[0].content}
    assert len(notes.noted) == 1


async def test_a_request_whose_client_went_away_is_finished_for_its_repetition(
    stack: Served, server: HttpServer, ada: httpx.Client
) -> None:
    headers = {**ada.headers, "Idempotency-Key": "k4"}
    async with team_tool(stack) as notes:
        notes.may_finish.clear()
        with pytest.raises(httpx.ReadTimeout):
            async with httpx.AsyncClient(headers=headers, timeout=0.5, trust_env=False) as client:
                await client.post(f"{server.url}{JOT}", json={"text": "x"})
        notes.may_finish.set()
        answer = await post(ada, JOT, key="k4", text="x")

    assert answer.json()["content"] == "Noted."
    assert len(notes.noted) == 1


async def test_what_failed_for_now_is_tried_again(stack: Served, ada: httpx.Client) -> None:
    async with team_tool(stack) as notes:
        notes.failure = UnavailableError("Not now.")
        failed = await post(ada, JOT, key="k5", text="x")
        notes.failure = None
        done = await post(ada, JOT, key="k5", text="x")

    assert problem(failed)[:2] == (503, "unavailable")
    assert done.status_code == 200


async def test_a_key_belongs_to_its_user_and_its_request(
    stack: Served, ada: httpx.Client, bob: httpx.Client
) -> None:
    async with team_tool(stack) as notes:
        await post(ada, JOT, key="k6", text="of ada")
        of_bob = await post(bob, JOT, key="k6", text="of bob")
        other = await post(ada, JOT, key="k6", text="other")

    assert of_bob.json()["data"] == {"text": "of bob"}
    assert problem(other)[:2] == (422, "invalid_arguments")
    assert [text for _, text in notes.noted] == ["of ada", "of bob"]


@pytest.mark.parametrize("key", ["", "x" * 256])
def test_a_key_that_cannot_be_kept_is_refused(ada: httpx.Client, key: str) -> None:
    answer = ada.post("/v1/tools/top_memories", headers={"Idempotency-Key": key})

    assert problem(answer)[:2] == (400, "bad_request")


async def test_the_oldest_answers_give_way(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(repeats, "MAX_KEPT_BYTES", 2_000)
    kept, done = Repeats(), []

    async def ask(key: str) -> None:
        async def work() -> HttpAnswer:
            done.append(key)
            return HttpAnswer(200, bytes(900))

        await kept.answer((None, "ada"), key, b"", work)

    for key in ("a", "b", "b", "c", "c", "a"):
        await ask(key)

    assert done == ["a", "b", "c", "a"]


async def test_an_answer_that_was_under_way_when_something_was_erased_is_not_kept() -> None:
    kept, may_end = Repeats(), asyncio.Event()

    async def read() -> HttpAnswer:
        await may_end.wait()
        return HttpAnswer(200, b"erased meanwhile")

    async def read_again() -> HttpAnswer:
        return HttpAnswer(200, b"nothing")

    owner = None, "ada"
    first = asyncio.create_task(kept.answer(owner, "a", b"", read))
    await asyncio.sleep(0)
    kept.forget()
    may_end.set()
    await first

    assert (await kept.answer(owner, "a", b"", read_again)).body == b"nothing"
