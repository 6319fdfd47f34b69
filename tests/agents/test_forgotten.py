"""The generator drops conversations that it holds once something in them was erased."""

import pytest

from calling import RICHARD
from factories import StartGenerator
from local2.bus.connection import Connection
from local2.bus.stream_erasure import StreamErasure
from local2.client.queries import QueryClient
from local2.protocol.envelope import Sender
from stand_ins.ollama_server import OllamaStandIn


@pytest.mark.parametrize(
    ("sender", "expected_earlier"),
    [
        (Sender(user="richard"), 0),
        (Sender(user="richard", session_id="s1"), 0),
        (Sender(user="richard", session_id="another"), 2),
        (Sender(user="eve"), 2),
    ],
)
async def test_a_session_is_dropped_when_something_in_it_was_erased(  # noqa: PLR0917 - fixtures
    bus: Connection,
    start: StartGenerator,
    client: QueryClient,
    ollama: OllamaStandIn,
    sender: Sender,
    expected_earlier: int,
) -> None:
    """No memory on this bus restores it."""
    await start(tools=0)
    await client.ask("The key hangs behind the clock.", caller=RICHARD)

    await StreamErasure(bus, "default").announce(sender)
    await bus.flush()
    await client.ask("Well?", caller=RICHARD)

    system, *messages = ollama.bodies("/api/chat")[-1]["messages"]
    assert system["role"] == "system"
    assert len(messages) == expected_earlier + 1
