"""LetterKeeper: hands out dead letters, and drops them, for whoever may see everybody's messages.

JetStream is the memory's own: on a server with accounts no tenant reads from it.
"""

import msgspec

from local.bus import stream_messages
from local.bus.connection import BusMessage, Connection
from local.bus.participant import Participant
from local.bus.streams import shortened
from local.memory.tenant import Memories
from local.protocol import subjects
from local.protocol.envelope import decode, encode, seal
from local.protocol.maintenance import LetterFound, LetterRequest, StoredLetter

NAME = "letter_keeper"
ACTION = "dead_letters"
"""What roles are asked for."""


class LetterKeeper(Participant):
    """Serves `memory.dead_letters`."""

    def __init__(self, bus: Connection, memories: Memories) -> None:
        super().__init__(bus, name=NAME, description="Shows what nobody could read.")
        self._memories = memories
        self.answer(subjects.MEMORY_DEAD_LETTERS, self._found)

    async def _found(self, message: BusMessage) -> LetterFound:
        return self._fitting(LetterFound(found=await self._letter(message)))

    async def _letter(self, message: BusMessage) -> StoredLetter | None:
        envelope = decode(message.data, LetterRequest)
        caller = self.bus.identity.caller_of(message, envelope)
        await self._memories.admitted(caller, ACTION)
        number, tenant = envelope.payload.number, caller.tenant
        if envelope.payload.action == "next":
            return await stream_messages.next_letter(self.bus, max(number, 1), tenant)
        stored = await stream_messages.letter_at(self.bus, number, tenant)
        if envelope.payload.action == "drop":
            await stream_messages.drop(self.bus, number, tenant)
        return stored

    def _fitting(self, answer: LetterFound) -> LetterFound:
        """Of a letter that the bus does not carry with its number, the beginning."""
        most = self.bus.client.max_payload
        while answer.found is not None and (size := self._size(answer)) > most:
            letter = shortened(answer.found.letter, most / size)
            answer = LetterFound(found=msgspec.structs.replace(answer.found, letter=letter))
        return answer

    def _size(self, answer: LetterFound) -> int:
        return len(encode(seal(answer, type="answer", source=self.name)))
