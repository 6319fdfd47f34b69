"""Dead letters: messages that nobody could read, stored in a stream until they are dealt with."""

import msgspec

from local.bus.connection import Connection
from local.bus.streams import publish_durably
from local.errors import TooLargeError, echoed
from local.protocol import subjects
from local.protocol.codec import encode
from local.protocol.envelope import seal
from local.protocol.payloads import DeadLetter


async def bury(bus: Connection, letter: DeadLetter, *, source: str, number: str | None) -> None:
    """Store a message that cannot be read, as much of it as a letter carries.

    Args:
        bus: The connection to publish over.
        letter: The message, and why it cannot be read.
        source: Who could not read it.
        number: Of the message where it came from; a second letter of it is dropped.

    Raises:
        BusError: The stream did not take it.
    """
    letter = msgspec.structs.replace(letter, reason=echoed(letter.reason))
    while True:
        data = encode(seal(letter, type="dead_letter", source=source))
        try:
            await publish_durably(bus, subjects.MEMORY_DEAD_LETTER, data, message_id=number)
        except TooLargeError:
            if not letter.message:
                raise
            kept = len(letter.message) * bus.client.max_payload // len(data) * 9 // 10
            letter = msgspec.structs.replace(letter, message=letter.message[:kept], cut=True)
        else:
            return
