"""The tools `remember_fact`, `memory_history` and `ingest`, as clients of the bus see them."""

import pytest

from calling import ask, call
from local2.bus.connection import Connection
from local2.memory.tenant import Memory
from local2.protocol.payloads import Json
from local2.tools import facts

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


async def test_a_long_history_lists_only_its_newest_versions(
    bus: Connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(facts, "MAX_VERSIONS", 5)
    for number in range(8):
        await call(bus, "remember_fact", {**VIM, "content": f"Version {number}"})

    result = await ask(bus, "memory_history", {"topic_or_id": "user.editor"})

    assert (len(result.data["versions"]), result.data["total"]) == (5, 8)
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
        "erased": 0, "related": [], "related_in_time": True,
    }  # fmt: skip
    assert first.content == "2 stored, 0 already known (session s1)."
    assert second.content == "1 stored, 2 already known (session s1)."
