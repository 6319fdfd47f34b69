"""A tenant's messages in JetStream: count, read and drop them, wait for turns, erase a user's.

The server overwrites a deleted message at once. An acknowledged message stays in its file until all
other messages in that file are acknowledged, too.
"""

import asyncio
import re
from collections.abc import AsyncIterator, Awaitable, Callable
from datetime import UTC, datetime
from typing import ParamSpec, TypeVar

import msgspec
import nats.errors
import nats.js.errors
from nats.js.api import RawStreamMsg, StreamState

from local2.bus.connection import BusMessage, Connection
from local2.bus.identity import user_of
from local2.bus.streams import dead_letters_stream, turns_stream
from local2.errors import BadRequestError, BusError, InvalidArgumentsError
from local2.protocol import subjects
from local2.protocol.envelope import Sender, decode, encode, seal
from local2.protocol.lenient.turns import sender_of
from local2.protocol.lenient.values import value_of
from local2.protocol.maintenance import StoredLetter
from local2.protocol.payloads import DeadLetter, Empty

TURNS_STORED_TIMEOUT = 30.0
"""Seconds to wait for turns to be stored. One that takes longer keeps failing until something is
repaired."""
POLL_INTERVAL = 0.05
"""Seconds between two reads of a stream's state."""
RELOAD_TIMEOUT = 2.0
"""Seconds to repeat a request for which there is no JetStream: a server that reads its accounts
again has none for a moment."""
ERASURE_TIMEOUT = 3.0
"""Seconds to wait for turns in progress to be stored, before they are erased from the stream."""
Parameters = ParamSpec("Parameters")
Answer = TypeVar("Answer")
_SENDER_FIELD = re.compile(r'"(user|session_id)"\s*:\s*("(?:[^"\\]|\\.)*")')
"""Matches the sender's fields in a message that is not valid JSON, such as a truncated one."""


async def next_letter(bus: Connection, sequence: int, tenant: str) -> StoredLetter | None:
    """Return the first dead letter with this number or a higher one; None if there is none.

    Raises:
        BusError: The server does not answer, or has no such stream.
    """
    raw = await _next_message(bus, dead_letters_stream(tenant), sequence)
    return _letter(raw) if raw is not None else None


async def letter_at(bus: Connection, sequence: int, tenant: str) -> StoredLetter:
    """Return the dead letter with this number.

    Raises:
        InvalidArgumentsError: There is no such letter.
        BusError: The server does not answer.
    """
    try:
        raw = await _request(bus.client.jsm().get_msg, dead_letters_stream(tenant), sequence)
    except nats.js.errors.NotFoundError as error:
        raise InvalidArgumentsError(
            f"There is no dead letter {sequence}.",
            remedy="`local2 dead-letters list` shows them.",
        ) from error
    return _letter(raw)


async def drop_letter(bus: Connection, sequence: int, tenant: str) -> None:
    """Delete one dead letter.

    Raises:
        BusError: The server does not answer.
    """
    await _request(bus.client.jsm().delete_msg, dead_letters_stream(tenant), sequence)


def _letter(raw: RawStreamMsg) -> StoredLetter:
    data = raw.data or b""
    try:
        letter = decode(data, DeadLetter).payload
    except (BadRequestError, InvalidArgumentsError):
        letter = DeadLetter(
            subject=str(raw.subject),
            reason="This letter itself cannot be read.",
            message=data.decode("utf-8", "replace"),
            cut=True,
        )
    return StoredLetter(sequence=int(raw.seq or 0), at=raw.time or datetime.now(UTC), letter=letter)


async def count_letters(bus: Connection, tenant: str) -> int:
    """Return the number of dead letters.

    Raises:
        BusError: The server does not answer.
    """
    return (await stream_state(bus, dead_letters_stream(tenant))).messages


async def count_turns(bus: Connection, tenant: str) -> int:
    """Return the number of turns and ratings that are not in the ledger yet.

    Raises:
        BusError: The server does not answer.
    """
    return (await stream_state(bus, turns_stream(tenant))).messages


async def count_undelivered(bus: Connection, consumer: str, tenant: str) -> int:
    """Return the number of turns and ratings that wait for their delivery, or for another one.

    Raises:
        BusError: The server does not answer.
    """
    try:
        found = await _request(bus.client.jsm().consumer_info, turns_stream(tenant), consumer)
    except nats.js.errors.NotFoundError:
        return await count_turns(bus, tenant)
    return (found.num_pending or 0) + (found.num_redelivered or 0)


async def stream_state(bus: Connection, stream: str) -> StreamState:
    """Return a stream's message count and sequence numbers; zeros if it does not exist.

    Raises:
        BusError: The server does not answer.
    """
    try:
        return (await _request(bus.client.jsm().stream_info, stream)).state
    except nats.js.errors.NotFoundError:
        return StreamState(messages=0, bytes=0, first_seq=0, last_seq=0, consumer_count=0)


async def turns_stored(bus: Connection, *tenants: str, within: float = TURNS_STORED_TIMEOUT) -> int:
    """Wait until the ledger has every turn now in the streams; return how many it still lacks.

    It does not wait for later turns: under load a stream is never empty.

    Raises:
        BusError: The server does not answer.
    """
    waiting = [await stream_state(bus, turns_stream(tenant)) for tenant in tenants]
    deadline = asyncio.get_running_loop().time() + within
    left = 0
    for tenant, before in zip(tenants, waiting, strict=True):
        while count := _count_up_to(before.last_seq, await stream_state(bus, turns_stream(tenant))):
            if asyncio.get_running_loop().time() > deadline:
                break
            await asyncio.sleep(POLL_INTERVAL)
        left += count
    return left


def _count_up_to(last: int, state: StreamState) -> int:
    """Return an upper bound of the stream's messages with sequence numbers up to `last`."""
    return max(0, min(state.messages, last - state.first_seq + 1))


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
        return await turns_stored(self._bus, self._tenant, within=ERASURE_TIMEOUT)

    async def count(self, sender: Sender) -> int:
        """Return how many messages a user has, or one of the user's sessions.

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
            await _request(self._bus.client.jsm().delete_msg, stream, sequence)
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
        async with self._reading:
            turns = self._messages(self._turns)
            letters = self._messages(self._letters)
            return [
                *[
                    (self._turns, raw.seq or 0)
                    async for raw in turns
                    if _is_sent_by(self._sender_of(raw), sender)
                ],
                *[
                    (self._letters, raw.seq or 0)
                    async for raw in letters
                    if _is_sent_by(_author_of(raw), sender)
                ],
            ]

    def _sender_of(self, raw: RawStreamMsg) -> Sender:
        """Return who sent a message; with accounts, the user is that of its token."""
        claimed = _claimed_sender(raw.data or b"")
        message = BusMessage(
            subjects.RESPONSE_GENERATION, raw.data or b"", headers=raw.headers, tenant=self._tenant
        )
        user = user_of(self._bus.identity, message, claimed.user, raw.time)
        return msgspec.structs.replace(claimed, user=user)

    async def _messages(self, stream: str) -> AsyncIterator[RawStreamMsg]:
        sequence = 1
        while (raw := await _next_message(self._bus, stream, sequence)) is not None:
            sequence = int(raw.seq or sequence) + 1
            yield raw


async def _next_message(bus: Connection, stream: str, sequence: int) -> RawStreamMsg | None:
    """Return the first message with this number or a higher one; None if there is none."""
    get = bus.client.jsm().get_msg
    try:
        return await _request(get, stream, sequence, subject=">", next=True)
    except nats.js.errors.NotFoundError:
        return None


async def _request(
    method: Callable[Parameters, Awaitable[Answer]],
    *args: Parameters.args,
    **kwargs: Parameters.kwargs,
) -> Answer:
    """Call a method of JetStream's API, for up to RELOAD_TIMEOUT if there is no JetStream.

    Raises:
        NotFoundError: The server has no such stream or message.
        BusError: The server does not answer, or refuses the request.
    """
    deadline = asyncio.get_running_loop().time() + RELOAD_TIMEOUT
    while True:
        try:
            return await method(*args, **kwargs)
        except nats.js.errors.NotFoundError:
            raise
        except (nats.js.errors.Error, nats.errors.Error, TimeoutError) as error:
            is_reloading = isinstance(error, nats.js.errors.ServiceUnavailableError)
            if not is_reloading or asyncio.get_running_loop().time() > deadline:
                raise BusError(f"JetStream failed: {error!r}.") from error
        await asyncio.sleep(POLL_INTERVAL)


def _author_of(raw: RawStreamMsg) -> Sender:
    """Return the sender of the message that a dead letter is about."""
    data = raw.data or b""
    try:
        letter = decode(data, DeadLetter).payload
    except (BadRequestError, InvalidArgumentsError):
        return _claimed_sender(data)
    claimed = _claimed_sender(letter.message.encode())
    return msgspec.structs.replace(claimed, user=letter.user or claimed.user)


def _claimed_sender(data: bytes) -> Sender:
    """Return the sender that a message claims, even if the message is not valid JSON."""
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
    """Return whether the users match, and the sessions, if `wanted` names one."""
    in_session = wanted.session_id is None or actual.session_id == wanted.session_id
    return actual.user == wanted.user and in_session
