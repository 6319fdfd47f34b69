"""Dead letters are read one by one from their stream, published again and dropped."""

from typing import Any
from unittest.mock import AsyncMock

import msgspec
import pytest
from nats.js.errors import ServerError, ServiceUnavailableError
from nats.js.manager import JetStreamManager

from local2.bus.connection import Connection
from local2.bus.dead_letters import (
    count_letters,
    delete_letter,
    publish_again,
    read_letter,
    store_dead_letter,
)
from local2.bus.streams import publish_durably, turns_stream
from local2.errors import MAX_ABRIDGED, BadRequestError, BusError, InvalidArgumentsError
from local2.protocol.payloads import DeadLetter
from turns import in_stream, letters

LETTER = DeadLetter(
    subject="response.generation", reason="No answer.", message='{"é": "“"}', source="critic"
)


@pytest.fixture
def bus(bus_with_streams: Connection) -> Connection:
    return bus_with_streams


async def store(bus: Connection, *changes: dict[str, Any]) -> None:
    for number, change in enumerate(changes):
        letter = msgspec.structs.replace(LETTER, **change)
        await store_dead_letter(
            bus, letter, source="test", message_id=f"{number}", tenant="default"
        )


async def test_letters_are_returned_oldest_first_with_dropped_ones_left_out(
    bus: Connection,
) -> None:
    await store(bus, *({"reason": f"Reason {number}."} for number in range(6)))
    for sequence in (1, 3, 4):
        await delete_letter(bus, sequence, "default")

    found = await letters(bus)

    assert [stored.sequence for stored in found] == [2, 5, 6]
    assert [stored.letter.reason for stored in found] == ["Reason 1.", "Reason 4.", "Reason 5."]
    assert await count_letters(bus, "default") == 3
    assert await read_letter(bus, 5, "default") == found[1]
    assert found == sorted(found, key=lambda stored: stored.at)


async def test_a_letter_that_is_gone_already_is_deleted_and_one_that_cannot_be_is_an_error(
    bus: Connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    await store(bus, {}, {"reason": "Another."})
    for _ in range(2):
        await delete_letter(bus, 1, "default")

    full = ServerError(code=500, err_code=10057, description="no space left on device")
    monkeypatch.setattr(JetStreamManager, "delete_msg", AsyncMock(side_effect=full))
    with pytest.raises(BusError, match="no space left on device"):
        await delete_letter(bus, 2, "default")


@pytest.mark.parametrize("text", ["a", "\0", "\ufffd", "“"])
async def test_a_letter_is_cut_to_fit_the_bus(bus: Connection, text: str) -> None:
    await store(bus, {"message": text * 2_000_000, "reason": text * 2_000_000})

    (stored,) = await letters(bus)
    assert stored.letter.cut
    assert len(stored.letter.reason) <= MAX_ABRIDGED
    assert len(stored.letter.message) > 100_000


async def test_a_message_is_published_again_unchanged(
    bus: Connection,
) -> None:
    await store(bus, {})

    await publish_again(bus, await read_letter(bus, 1, "default"), "default")

    assert (await in_stream(bus), await count_letters(bus, "default")) == (1, 1)
    published = await bus.client.jetstream().get_msg(turns_stream("default"), seq=1)
    assert (published.subject, published.data) == (LETTER.subject, LETTER.message.encode())


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        pytest.param({"cut": True}, "Only the beginning of dead letter", id="cut"),
        pytest.param(
            {"subject": "$JS.API.STREAM.PURGE.local2-turns-default"},
            "is not stored in the memory",
            id="a subject that nobody should publish to",
        ),
    ],
)
async def test_a_cut_message_or_one_for_a_foreign_subject_is_not_published_again(
    bus: Connection, change: dict[str, Any], reason: str
) -> None:
    await store(bus, change)

    with pytest.raises(BadRequestError, match=reason):
        await publish_again(bus, await read_letter(bus, 1, "default"), "default")

    assert (await in_stream(bus), await count_letters(bus, "default")) == (0, 1)


async def test_a_letter_is_kept_if_its_message_could_not_be_published(bus: Connection) -> None:
    await store(bus, {})
    await bus.client.jsm().delete_stream(turns_stream("default"))

    with pytest.raises(BusError):
        await publish_again(bus, await read_letter(bus, 1, "default"), "default")

    assert await count_letters(bus, "default") == 1


async def test_an_unreadable_letter_is_listed_too(bus: Connection) -> None:
    await publish_durably(bus, "memory.dead_letter", b"\xff no letter")

    (stored,) = await letters(bus)

    assert stored.letter.cut
    assert "no letter" in stored.letter.message


async def test_a_missing_letter_is_a_clear_error(bus: Connection) -> None:
    with pytest.raises(InvalidArgumentsError, match="no dead letter 7"):
        await read_letter(bus, 7, "default")


async def test_without_a_stream_there_are_no_letters(bus: Connection) -> None:
    await bus.client.jsm().delete_stream("local2-dead-letters-default")

    assert await count_letters(bus, "default") == 0
    assert await letters(bus) == []


async def test_a_server_that_reads_its_accounts_again_is_asked_again(
    bus: Connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    await store(bus, {"reason": "Unreadable."})
    get_state, refusals = JetStreamManager.stream_info, iter(range(2))

    async def refuse_at_first(self: JetStreamManager, *args: Any) -> Any:
        for _ in refusals:
            raise ServiceUnavailableError
        return await get_state(self, *args)

    monkeypatch.setattr(JetStreamManager, "stream_info", refuse_at_first)

    assert await count_letters(bus, "default") == 1
