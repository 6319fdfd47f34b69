"""Erase what a user sent from the streams of a tenant.

The server overwrites a deleted message at once. An acknowledged message stays in its file until all
other messages in that file are acknowledged, too.
"""

import asyncio
import re
from collections.abc import AsyncIterator

import msgspec
from nats.js.api import RawStreamMsg

from local2.bus.connection import BusMessage, Connection
from local2.bus.identity import user_of
from local2.bus.streams import (
    dead_letters_stream,
    delete_message,
    next_message,
    turns_stored,
    turns_stream,
)
from local2.errors import BadRequestError, InvalidArgumentsError
from local2.protocol import subjects
from local2.protocol.envelope import Sender, decode, encode, seal
from local2.protocol.lenient.turns import sender_of
from local2.protocol.lenient.values import value_of
from local2.protocol.payloads import DeadLetter, Empty

STORING_TIMEOUT = 3.0
"""Seconds to wait for turns in progress to be stored, before they are erased from the stream."""
_SENDER_FIELD = re.compile(r'"(user|session_id)"\s*:\s*("(?:[^"\\]|\\.)*")')
"""Matches the sender's fields in a message that is not valid JSON, such as a truncated one."""


class StreamErasure:
    """Erases a sender's messages from the streams of one tenant."""

    def __init__(self, bus: Connection, tenant: str) -> None:
        self._bus = bus
        self._tenant = tenant
        self._turns = turns_stream(tenant)
        self._letters = dead_letters_stream(tenant)
        self._reading = asyncio.Lock()
        """Reading a stream takes a request per message; several readers would delay all turns."""

    async def wait_until_stored(self) -> int:
        """Wait briefly until all turns are stored; return how many still are not.

        Raises:
            BusError: The server does not answer.
        """
        return await turns_stored(self._bus, self._tenant, within=STORING_TIMEOUT)

    async def count(self, sender: Sender) -> int:
        """Count the messages of a user, or of one of the user's sessions.

        Raises:
            BusError: The server does not answer.
        """
        return len(await self._find(sender))

    async def erase(self, sender: Sender) -> int:
        """Erase the messages of a user, or of one session; return how many there were.

        Raises:
            BusError: The server does not answer.
        """
        found = await self._find(sender)
        for stream, sequence in found:
            await delete_message(self._bus, stream, sequence)
        return len(found)

    async def announce(self, sender: Sender) -> None:
        """Announce the erasure, so that participants that hold the sender's messages drop them.

        Raises:
            BusError: There is no connection.
        """
        event = seal(
            Empty(),
            type="event",
            source="memory",
            user=sender.user,
            session_id=sender.session_id,
        )
        await self._bus.publish(subjects.MEMORY_FORGOTTEN, encode(event), tenant=self._tenant)

    async def _find(self, sender: Sender) -> list[tuple[str, int]]:
        """The stream and the number of each of the sender's messages, and of letters about them."""
        found: list[tuple[str, int]] = []
        async with self._reading:
            async for raw in self._messages(self._turns):
                data = raw.data or b""
                claimed = _claimed_sender(data)
                message = BusMessage(
                    subjects.RESPONSE_GENERATION, data, headers=raw.headers, tenant=self._tenant
                )
                # With accounts, the user is that of the message's token.
                user = user_of(self._bus.identity, message, claimed.user, raw.time)
                if _is_sent_by(msgspec.structs.replace(claimed, user=user), sender):
                    found.append((self._turns, raw.seq or 0))
            async for raw in self._messages(self._letters):
                data = raw.data or b""
                try:
                    letter = decode(data, DeadLetter).payload
                except (BadRequestError, InvalidArgumentsError):
                    author = _claimed_sender(data)
                else:  # who sent the message that the letter is about
                    claimed = _claimed_sender(letter.message.encode())
                    author = msgspec.structs.replace(claimed, user=letter.user or claimed.user)
                if _is_sent_by(author, sender):
                    found.append((self._letters, raw.seq or 0))
        return found

    async def _messages(self, stream: str) -> AsyncIterator[RawStreamMsg]:
        sequence = 1
        while (raw := await next_message(self._bus, stream, sequence)) is not None:
            sequence = int(raw.seq or sequence) + 1
            yield raw


def _claimed_sender(data: bytes) -> Sender:
    """Read the sender that a message claims, even if the message is not valid JSON."""
    try:
        return sender_of(data)
    except BadRequestError:
        text = data.decode("utf-8", "replace")
        found = [(name, value_of(value)) for name, value in _SENDER_FIELD.findall(text)]
        known = [(name, value) for name, value in found if value is not None]
        # The envelope names the user, and comes first; its payload may name another session.
        user, session = dict(reversed(known)).get("user"), dict(known).get("session_id")
        return Sender(user=user, session_id=session)


def _is_sent_by(actual: Sender, wanted: Sender) -> bool:
    """Whether the users match, and the sessions, if `wanted` names one."""
    in_session = wanted.session_id is None or actual.session_id == wanted.session_id
    return actual.user == wanted.user and in_session
