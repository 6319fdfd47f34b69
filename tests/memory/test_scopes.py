"""Scopes: each finds what belongs to it, nothing of another user, and weighs as configured."""

import msgspec
import pytest

from calling import UNNAMED, caller_named
from local2.errors import InvalidArgumentsError
from local2.ledger.records import Fact, NewRecord
from local2.memory.scopes import Weights
from local2.memory.tenant import Memory
from local2.protocol.envelope import Caller
from local2.protocol.memories import Kind, Scope
from local2.protocol.payloads import ToolCallRecord
from local2.settings import MemorySettings
from recalling import DAY, chat_message, recall

RICHARD = caller_named("richard", agent="shell", session_id="now")
EVE = caller_named("eve", agent="robot", session_id="now")
NOBODY = caller_named(None, agent="shell", session_id="now")
WEIGHTS = Weights.of(MemorySettings())


async def store_every_class(memory: Memory, caller: Caller, name: str) -> None:
    """Store one record of each class about osmium, each naming its class."""
    service = memory.of(caller)
    calls = [{"name": "weigh", "id": f"{name}-call", "content": f"{name} now tool osmium"}]
    await service.intake.store_conversation(
        [
            chat_message(f"{name} now osmium"),
            chat_message(
                None, "assistant", tool_calls=msgspec.convert(calls, list[ToolCallRecord])
            ),
        ]
    )
    await service.intake.store_conversation([chat_message(f"{name} past osmium")], "past")
    await service.intake.store_episode(f"{name} note osmium")
    if caller.user is not None:
        await service.facts.store(Fact(content=f"{name} user osmium", scope="user"))
    await service.facts.store(Fact(content=f"{name} agent osmium", scope="agent"))


@pytest.fixture(autouse=True)
async def remembered(memory: Memory) -> None:
    await store_every_class(memory, RICHARD, "richard")
    await store_every_class(memory, EVE, "eve")
    await store_every_class(memory, caller_named(None, agent="nobody", session_id="now"), "nobody")
    fact = Fact(content="tenant osmium", scope="tenant")
    await memory.of(EVE).facts.store(fact)
    chunk = NewRecord(
        id="chunk", kind="document_chunk", scope="tenant", content="document osmium", event_time=DAY
    )
    await memory.ledger.records.store([chunk])


SESSION = {"richard now osmium", "richard now tool osmium"}
PAST = {"richard past osmium"}
USER, AGENT = {"richard user osmium", "richard note osmium"}, {"richard agent osmium"}
TENANT = {"tenant osmium", "document osmium"}
NOBODYS = {f"nobody {what} osmium" for what in ("now", "now tool", "past", "note")}


CLASSES: dict[Scope, set[str]] = {
    "session": SESSION,
    "history": PAST,
    "user": USER,
    "agent": AGENT,
    "tenant": TENANT,
}
KINDS: dict[Kind, set[str]] = {
    "chat_message": {"richard now osmium"} | PAST,
    "tool_output": {"richard now tool osmium"},
    "document_chunk": {"document osmium"},
    "fact": {"richard user osmium", "tenant osmium"} | AGENT,
    "note": {"richard note osmium"},
}


async def test_a_scope_finds_exactly_its_records(memory: Memory) -> None:
    richard = memory.of(RICHARD)

    found = {scope: set(await recall(richard, "osmium", scope=scope)) for scope in CLASSES}
    anywhere = set(await recall(richard, "osmium", scope="any"))

    assert found == CLASSES
    assert anywhere == set.union(*CLASSES.values())


async def test_only_records_of_the_requested_kind_are_found(memory: Memory) -> None:
    richard = memory.of(RICHARD)

    found = {kind: set(await recall(richard, "osmium", kinds=(kind,))) for kind in KINDS}

    assert found == KINDS


async def test_a_kind_that_a_scope_does_not_contain_finds_nothing(memory: Memory) -> None:
    assert await recall(memory.of(RICHARD), "osmium", kinds=("fact",), scope="session") == []


async def test_a_caller_without_a_user_finds_records_of_other_such_callers(
    memory: Memory,
) -> None:
    found = set(await recall(memory.of(NOBODY), "osmium"))

    assert found == NOBODYS | AGENT | TENANT


async def test_a_caller_without_any_identity_can_recall(memory: Memory) -> None:
    found = set(await recall(memory.of(UNNAMED), "osmium"))

    assert found == NOBODYS | TENANT


@pytest.mark.parametrize(
    ("scope", "caller", "lacks"),
    [
        ("session", caller_named("richard", agent="shell"), "session_id"),
        ("history", caller_named(None, agent="shell", session_id="now"), "user"),
        ("user", caller_named(None, agent="shell", session_id="now"), "user"),
        ("agent", caller_named("richard", session_id="now"), "source"),
    ],
)
async def test_a_scope_without_its_identity_is_refused_and_the_error_names_it(
    memory: Memory, scope: Scope, caller: Caller, lacks: str
) -> None:
    with pytest.raises(
        InvalidArgumentsError, match=rf"'{scope}'.* has no {lacks}\. Send {lacks} .*, or search"
    ):
        await recall(memory.of(caller), "osmium", scope=scope)


def test_the_configured_weights_apply() -> None:
    settings = MemorySettings(weight_tenant=0.5)

    assert Weights.of(settings) == Weights(
        session=1.3, history=1.0, user=1.1, agent=1.0, tenant=0.5
    )


async def test_the_class_with_the_highest_weight_is_first(memory: Memory) -> None:
    for heavy, expected in CLASSES.items():
        weights = msgspec.structs.replace(WEIGHTS, **{heavy: 9.0})

        found = await recall(memory.of(RICHARD), "osmium", weights=weights)

        assert set(found[: len(expected)]) == expected


async def test_a_class_of_weight_zero_is_left_out(memory: Memory) -> None:
    richard = memory.of(RICHARD)
    for left_out, suppressed in CLASSES.items():
        weights = msgspec.structs.replace(WEIGHTS, **{left_out: 0.0})

        found = set(await recall(richard, "osmium", weights=weights))
        in_scope = set(await recall(richard, "osmium", weights=weights, scope=left_out))

        assert found == set.union(*CLASSES.values()) - suppressed
        assert suppressed.isdisjoint(in_scope)


async def test_the_current_session_is_not_part_of_history_and_vice_versa(
    memory: Memory,
) -> None:
    other = memory.of(msgspec.structs.replace(RICHARD, session_id="past"))

    assert set(await recall(other, "osmium", scope="session")) == PAST
    assert set(await recall(other, "osmium", scope="history")) == SESSION


async def test_without_a_session_all_of_the_users_sessions_are_history(
    memory: Memory,
) -> None:
    outside = memory.of(caller_named("richard", agent="shell"))

    assert set(await recall(outside, "osmium", scope="history")) == SESSION | PAST


async def test_similar_names_of_users_and_agents_are_distinguished(
    memory: Memory,
) -> None:
    """An agent named like a user, and names that differ only in case or in odd characters."""
    namesake = memory.of(caller_named("shell", agent="richard", session_id="now"))
    assert set(await recall(namesake, "osmium")) == TENANT
    for user in ("Richard", "richard ", "richárd", "rich*", 'richard" OR "eve', "x" * 256, "\x00"):
        found = await recall(memory.of(caller_named(user)), "osmium")
        assert set(found) == TENANT, user
