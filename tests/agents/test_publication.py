"""Turns that the stream does not store are queued in order, bounded, and logged if lost."""

import json
from pathlib import Path

import pytest

from calling import RICHARD
from factories import Listen
from local2.bus.connection import Connection
from local2.bus.streams import ensure_streams
from local2.generator import publication
from local2.generator.publication import TurnPublisher
from local2.protocol.envelope import decode
from local2.protocol.payloads import Generation
from waiting import eventually


@pytest.fixture(autouse=True)
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(publication, "ATTEMPTS", 1)
    monkeypatch.setattr(publication, "PATIENCE", 0.2)
    monkeypatch.setattr(publication, "RETRY_DELAY", 0.01)


def turn(number: int) -> Generation:
    return Generation(query=f"Query {number}?", answer=f"Answer {number}.", query_id=f"q{number}")


async def stored(bus: Connection) -> list[str]:
    """Return the answers in the stream, in its order."""
    jetstream = bus.client.jetstream()
    state = (await jetstream.stream_info("local2-turns-default")).state
    raw = [
        await jetstream.get_msg("local2-turns-default", seq=number)
        for number in range(1, state.last_seq + 1)
    ]
    return [decode(message.data or b"", Generation).payload.answer for message in raw]


async def test_turns_are_queued_in_order_until_the_stream_stores_them(
    bus: Connection, listen: Listen
) -> None:
    published = await listen("response.generation")
    publications = TurnPublisher(bus)
    for number in range(5):
        assert await publications.publish(turn(number), RICHARD) == turn(number)
    await eventually(lambda: len(published) == 5)
    queued = [decode(message.data, Generation).payload for message in published]

    await ensure_streams(bus, "default")
    await eventually(lambda: not publications._waiting)
    await publications.publish(turn(5), RICHARD)
    await publications.close()

    assert [one.answer for one in queued] == [turn(number).answer for number in range(5)]
    assert all("not stored yet" in str(one.error) for one in queued)
    assert await stored(bus) == [turn(number).answer for number in range(6)]
    await eventually(lambda: len(published) == 6)
    assert decode(published[-1].data, Generation).payload == turn(5)


async def test_a_turn_that_the_queue_has_no_room_for_is_published_as_an_error(
    bus: Connection, monkeypatch: pytest.MonkeyPatch, listen: Listen
) -> None:
    monkeypatch.setattr(publication, "MAX_WAITING_BYTES", 0)
    published = await listen("response.generation")

    publications = TurnPublisher(bus)
    refused = await publications.publish(turn(1), RICHARD)
    await publications.close()

    await eventually(lambda: published)
    assert decode(published[0].data, Generation).payload == refused
    assert (refused.answer, "nobody will remember it" in str(refused.error)) == ("", True)


async def test_turns_lost_with_their_generator_are_logged_by_id(
    bus: Connection, logs: Path
) -> None:
    publications = TurnPublisher(bus)
    for number in (71, 72):
        await publications.publish(turn(number), RICHARD)
    await publications.close()

    def lost() -> list[list[str]]:
        lines = [json.loads(line) for line in logs.read_text().splitlines()]
        return [line["query_ids"] for line in lines if line["event"] == "turns_lost"]

    await eventually(lambda: ["q71", "q72"] in lost())
