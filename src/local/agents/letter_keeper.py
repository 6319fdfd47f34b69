"""LetterKeeper: hands out dead letters, and drops them, for whoever may see everybody's messages.

JetStream is the memory's own: on a server with accounts no tenant reads from it.
"""

import msgspec

from local.bus import dead_letters
from local.bus.connection import BusMessage, Connection
from local.bus.participant import Participant, error_answer
from local.bus.streams import shortened
from local.errors import Local2Error
from local.memory.tenant import Memories
from local.protocol import subjects
from local.protocol.envelope import decode, encode, seal
from local.protocol.payloads import LetterFound, LetterRequest, StoredLetter

NAME = "letter_keeper"
ACTION = "dead_letters"
"""What roles are asked for."""


class LetterKeeper(Participant):
    """Serves `memory.dead_letters`."""

    def __init__(self, bus: Connection, memories: Memories) -> None:
        super().__init__(bus, name=NAME, description="Shows what nobody could read.")
        self._memories = memories
        self.serve(subjects.MEMORY_DEAD_LETTERS, self._receive, queue=NAME)

    async def _receive(self, message: BusMessage) -> None:
        headers: dict[str, str] | None = None
        try:
            data = self._encoded(await self._answer(message))
        except Local2Error as error:
            data, headers = error_answer(error, source=NAME)
        if message.reply:
            await self.bus.publish(message.reply, data, headers=headers)

    async def _answer(self, message: BusMessage) -> StoredLetter | None:
        envelope = decode(message.data, LetterRequest)
        caller = self.bus.identity.caller_of(message, envelope)
        await self._memories.admitted(caller, ACTION)
        number, tenant = envelope.payload.number, caller.tenant
        if envelope.payload.action == "next":
            return await dead_letters.next_letter(self.bus, max(number, 1), tenant)
        stored = await dead_letters.letter_at(self.bus, number, tenant)
        if envelope.payload.action == "drop":
            await dead_letters.drop(self.bus, number, tenant)
        return stored

    def _encoded(self, found: StoredLetter | None) -> bytes:
        """The answer; of a letter that the bus does not carry with its number, the beginning."""
        most = self.bus.client.max_payload
        data = encode(seal(LetterFound(found=found), type="answer", source=NAME))
        while found is not None and len(data) > most:
            letter = shortened(found.letter, most / len(data))
            found = msgspec.structs.replace(found, letter=letter)
            data = encode(seal(LetterFound(found=found), type="answer", source=NAME))
        return data
