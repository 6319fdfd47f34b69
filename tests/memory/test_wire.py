"""The tools `remember_fact`, `memory_history` and `ingest`, as clients of the bus see them."""

import pytest

from calling import ask, call
from local2.bus.connection import Connection
from local2.memory.tenant import Memory
from local2.protocol.payloads import Json

pytestmark = pytest.mark.usefixtures("tools")

VIM = {"content": "Edits with Vim.", "scope": "user", "topic": "user.editor"}
EMACS = {**VIM, "content": "Edits with Emacs."}


async def test_the_answer_to_a_fact_has_its_id_and_whether_it_is_new(bus: Connection) -> None:
    first = await ask(bus, "remember_fact", VIM)
    again = await ask(bus, "remember_fact", VIM)

    settled = {"related": [], "related_in_time": True, "replaced": []}
    assert first.data == {"id": first.data["id"], "was_new": True, **settled}
    assert again.data == {"id": first.data["id"], "was_new": False, **settled}
    assert (first.content, again.content) == ("Fact remembered.", "Fact already known.")


async def test_history_lists_versions_newest_first_and_marks_replaced_ones(
    bus: Connection, memory: Memory
) -> None:
    old = (await call(bus, "remember_fact", VIM))["id"]
    new = (await call(bus, "remember_fact", EMACS))["id"]

    result = await ask(bus, "memory_history", {"topic_or_id": "user.editor"})

    today = memory.clock().date()
    assert (
        result.content == f"{today} Edits with Emacs.\n{today} (replaced {today}) Edits with Vim."
    )
    versions = result.data["versions"]
    assert [(one["id"], one["superseded_by"]) for one in versions] == [(new, None), (old, new)]
    assert (versions[0]["topic"], versions[0]["scope"], versions[0]["agent"]) == (
        "user.editor",
        "user",
        "shell",
    )


async def test_a_history_of_long_versions_fits_the_bus_and_a_context(bus: Connection) -> None:
    for number in range(12):
        fact = {**VIM, "content": f"Version {number}: " + "long " * 13_000}
        await call(bus, "remember_fact", fact)

    result = await ask(bus, "memory_history", {"topic_or_id": "user.editor"})

    assert result.ok, result.content
    assert len(result.content) < 10_000
    assert [one["content"].split(":")[0] for one in result.data["versions"]] == [
        f"Version {number}" for number in reversed(range(12))
    ]


async def test_a_long_history_lists_only_its_newest_versions(bus: Connection) -> None:
    for number in range(103):
        await call(bus, "remember_fact", {**VIM, "content": f"Version {number}"})

    result = await ask(bus, "memory_history", {"topic_or_id": "user.editor"})

    assert (len(result.data["versions"]), result.data["total"]) == (100, 103)
    assert result.content.endswith("(3 older versions are left out.)")


async def test_the_answer_to_a_conversation_reports_its_outcome(bus: Connection) -> None:
    messages = [{"role": "user", "content": "Hello."}, {"role": "assistant", "content": "Hi."}]
    args: Json = {"messages": messages, "session_id": "s1"}
    first = await ask(bus, "ingest", args)
    args = {**args, "messages": [*messages, {"role": "user", "content": "Bye."}]}
    second = await ask(bus, "ingest", args)

    assert (first.data["session_id"], first.data["added"], len(first.data["ids"])) == ("s1", 2, 2)
    assert second.data["ids"][:2] == first.data["ids"]
    assert first.data | {"ids": []} == {
        "session_id": "s1", "ids": [], "added": 2, "changed": 0, "known": 0, "skipped": [],
        "erased": 0,
    }  # fmt: skip
    assert first.content == "2 stored, 0 already known (session s1)."
    assert second.content == "1 stored, 2 already known (session s1)."


def message(**fields: object) -> Json:
    return {"messages": [{"role": "user", "content": "Hello.", **fields}]}


@pytest.mark.parametrize(
    ("tool", "args", "expected"),
    [
        pytest.param(
            "remember_fact", {"content": "x", "scope": "session"}, "scope", id="another scope"
        ),
        pytest.param("remember_fact", {**VIM, "content": " "}, "content: the", id="blank fact"),
        pytest.param("remember_fact", {**VIM, "topic": "x"}, "topic: 'x'", id="no topic key"),
        pytest.param("remember_fact", {**VIM, "importance": 1.5}, "importance", id="too important"),
        pytest.param("remember_fact", {**VIM, "durability": "long"}, "durability", id="durability"),
        pytest.param("remember_fact", {**VIM, "memory_type": "x"}, "memory_type", id="type"),
        pytest.param("remember_fact", {**VIM, "user": "eve"}, "`user`", id="fact of another"),
        pytest.param("memory_history", {"topic_or_id": ""}, "topic_or_id", id="nothing"),
        pytest.param("ingest", {"messages": []}, "messages", id="no messages"),
        pytest.param("ingest", message(role=""), "messages[0].role: ", id="no role"),
        pytest.param("ingest", {"messages": ["x"]}, "messages", id="no message"),
        pytest.param("ingest", {"messages": [{"role": "user"}]}, "neither", id="nothing said"),
        pytest.param("ingest", message(timestamp="noon"), "messages[0].timestamp", id="no time"),
        pytest.param("ingest", message(timestamp="2026-W22"), "2026-05-01", id="a week"),
        pytest.param("ingest", message(id="x" * 257), "messages[0].id", id="endless id"),
        pytest.param("ingest", {**message(), "session_id": ""}, "session_id", id="empty session"),
        pytest.param(
            "ingest", message(timestamp="0001-01-01T00:00:00+23:59"), "calendar", id="no such time"
        ),
    ],
)
async def test_wrong_arguments_are_clear_errors_and_write_nothing(
    bus: Connection, memory: Memory, tool: str, args: Json, expected: str
) -> None:
    result = await ask(bus, tool, args)

    assert result.error is not None
    assert result.error.code == "invalid_arguments"
    assert expected in result.error.message
    assert (await memory.ledger.counts()).records == 0
