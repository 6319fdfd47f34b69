"""Tools, services and memories over HTTP do what they do on the bus."""

from urllib.parse import quote

import httpx
import pytest

from http_servers import HttpServer, call, problem
from local2.agents.services import SERVICES as SERVED
from local2.agents.services import Announcement
from local2.protocol.services import HEALTH, READY, SERVICES


def test_a_tool_is_called_with_its_arguments(ada: httpx.Client) -> None:
    saved = call(ada, "save_topic", topic="user.seat", content="By the window")
    recalled = call(ada, "recall_topic", topic="user.seat")

    assert saved["data"]["was_new"]
    assert recalled["data"]["content"] == "By the window"
    assert "By the window" in recalled["content"]


def test_a_tool_without_arguments_needs_no_body(ada: httpx.Client) -> None:
    assert ada.post("/v1/tools/top_memories").status_code == 200


def test_names_in_headers_may_have_any_characters(server: HttpServer) -> None:
    headers = {"Local2-User": "J%C3%BCrgen", "Local2-Agent": "desk", "Local2-Session": "s 1"}
    with server.client(**headers) as client:
        call(client, "note", content="Starts at nine.")
        session = call(client, "load_session")["data"]

    assert session["session_id"] == "s 1"
    assert [(note["role"], note["content"]) for note in session["notes"]] == [
        ("desk", "Starts at nine.")
    ]


@pytest.mark.parametrize("name", [b"J%FCrgen", "Jürgen".encode(), b"J\xfcrgen"])
def test_a_name_that_could_be_taken_for_another_is_refused(ada: httpx.Client, name: bytes) -> None:
    refused = ada.post("/v1/tools/top_memories", headers=[(b"Local2-User", name)])

    assert refused.status_code == 400
    assert "J%C3%BCrgen" in refused.json()["detail"]


def test_half_an_emoji_is_read(ada: httpx.Client) -> None:
    body = rb'{"topic": "user.emoji", "content": "half \ud83d"}'
    json = {"Content-Type": "application/json; charset=utf-8"}

    assert ada.post("/v1/tools/save_topic", content=body, headers=json).status_code == 200
    assert call(ada, "recall_topic", topic="user.emoji")["data"]["content"] == "half \ufffd"


def test_a_service_is_asked_with_its_payload(ada: httpx.Client) -> None:
    item = {"namespace": ["trips"], "key": "oslo", "value": {"seat": "window"}}
    stored = ada.post("/v1/services/memory.items.put", json={"collection": "app", "items": [item]})
    keys = {"collection": "app", "keys": [{"namespace": ["trips"], "key": "oslo"}]}
    found = ada.post("/v1/services/memory.items.get", json=keys)

    assert stored.json()["stored"] == 1
    assert found.json()["items"][0]["value"] == {"seat": "window"}


def test_a_whole_number_with_a_point_is_an_integer_for_tools_and_services(
    ada: httpx.Client,
) -> None:
    call(ada, "save_topic", topic="user.metal", content="osmium")
    listing = "/v1/services/memory.items.search"

    assert call(ada, "recall", query="osmium", top_k=2.0)["data"]
    assert ada.post(listing, json={"collection": "app", "limit": 2.0}).status_code == 200
    refused = ada.post(listing, json={"collection": "app", "limit": 2.5})
    assert (refused.status_code, refused.json()["code"]) == (400, "bad_request")


def test_services_that_need_no_payload_answer_without_one(ada: httpx.Client) -> None:
    assert ada.post("/v1/services/memory.ready").json()["ready"] is True
    assert ada.post("/v1/services/memory.status").json()["records"] >= 0


def test_a_part_of_a_long_output_is_stored_and_a_wrong_one_refused(ada: httpx.Client) -> None:
    part = {"key": "tout_" + "ab" * 12, "offset": 0, "text": "A report", "last": True}
    stored = ada.post("/v1/services/memory.output.keep", json=part)
    refused = ada.post("/v1/services/memory.output.keep", json={**part, "key": "tout_x"})

    assert stored.json() == {"ok": True, "content": "Stored."}
    assert (
        call(ada, "read_tool_output", tool_output_key=part["key"])["data"]["content"] == "A report"
    )
    assert problem(refused)[:2] == (400, "bad_request")


def test_a_memory_is_read_and_erased_by_its_id(ada: httpx.Client, bob: httpx.Client) -> None:
    id_ = call(ada, "remember_fact", content="Ada collects stamps.", scope="user")["data"]["id"]
    path = f"/v1/memories/{id_}"

    assert ada.get(path).json()["content"] == "Ada collects stamps."
    assert problem(bob.get(path))[0] == problem(bob.delete(path))[0] == 404
    assert ada.delete(path).json()["erased"] == {"facts": 1}
    assert problem(ada.get(path))[0] == problem(ada.delete(path))[0] == 404


def test_memories_are_listed_by_conditions_in_the_address_page_by_page(
    server: HttpServer,
) -> None:
    with server.client(**{"Local2-User": "noor"}) as noor:
        for place in ("Oslo", "Rome", "Lima"):
            call(noor, "remember_fact", content=f"Noor flew to {place}.", scope="user")
        call(noor, "save_memory", content="Noor flew home.")
        facts = "/v1/memories?kinds=fact&scopes=user&scopes=session&limit=2"
        first = noor.get(facts).json()
        rest = noor.get(f"{facts}&after={quote(first['next'])}").json()
        found = noor.get("/v1/memories", params={"words": "home"}).json()["memories"]

    read = [one["content"] for page in (first, rest) for one in page["memories"]]
    assert read == [f"Noor flew to {place}." for place in ("Lima", "Rome", "Oslo")]
    assert "next" not in rest
    assert [one["content"] for one in found] == ["Noor flew home."]


@pytest.mark.parametrize(
    ("query", "said"),
    [
        ("limit=many", "`limit`"),
        ("limit=0", "`limit`"),
        ("kinds=facts", "`kinds[0]`"),
        ("word=home", "`word`"),
        ("since=soon", "since"),
        ("after=x", "after"),
    ],
)
def test_a_wrong_condition_is_named_and_lists_nothing(
    ada: httpx.Client, query: str, said: str
) -> None:
    status, _, detail = problem(ada.get(f"/v1/memories?{query}"))

    assert status in {400, 422}
    assert said in detail


def test_a_memory_is_edited_by_its_id_and_the_former_version_is_kept(
    ada: httpx.Client, bob: httpx.Client
) -> None:
    id_ = call(ada, "remember_fact", content="Ada plays the flut.", scope="user")["data"]["id"]
    path, wanted = f"/v1/memories/{id_}", {"content": "Ada plays the flute.", "reason": "Typo."}

    assert problem(bob.patch(path, json=wanted))[0] == 404
    assert problem(ada.patch(path, json={**wanted, "id": id_}))[0] == 422
    assert problem(ada.patch(path, json={"content": "Ada plays the flute."}))[0] == 422
    key = {"Idempotency-Key": "typo"}
    edited, again = (ada.patch(path, json=wanted, headers=key).json() for _ in range(2))

    assert again == edited
    assert ada.get(f"/v1/memories/{edited['id']}").json()["content"] == "Ada plays the flute."
    assert ada.get(path).json()["superseded_by"] == edited["id"]


def test_a_topic_is_no_id(ada: httpx.Client) -> None:
    call(ada, "save_topic", topic="user.pet", content="A cat")

    assert problem(ada.get("/v1/memories/user.pet"))[0] == 404


def test_every_service_of_the_stack_is_declared_and_served() -> None:
    served = {
        service.declared.subject
        for group in SERVED
        for service in group.services
        if not isinstance(service, Announcement)
    }

    assert {service.subject for service in SERVICES} == served | {READY.subject, HEALTH.subject}
