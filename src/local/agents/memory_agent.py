"""MemoryAgent: remembers every turn by itself, and keeps the ratings of answers.

Turns come from JetStream and are acknowledged after the ledger has committed them: killed in the
middle and started again, the agent misses nothing, and the ledger's ids double nothing.
"""

import structlog

from local.bus.connection import Connection, Message
from local.bus.identity import caller_of
from local.bus.participant import Participant
from local.bus.streams import (
    acknowledge,
    ask_again,
    ensure_streams,
    ensure_turns_consumer,
    publish_durably,
)
from local.errors import Local2Error, RequestError
from local.llm.nothing import is_nothing, why_in_part
from local.memory.echoes import UNANSWERED, read
from local.memory.ingestion import Turn
from local.memory.records import in_utc
from local.memory.service import Memory
from local.protocol import subjects
from local.protocol.codec import decode, encode
from local.protocol.envelope import seal, utc_now
from local.protocol.payloads import DeadLetter, Feedback, Generation

NAME = "memory_agent"
DEAD_LETTER_CHARACTERS = 100_000

log = structlog.get_logger()


class MemoryAgent(Participant):
    """Consumes `response.generation` and `response.feedback`. Made by `open`."""

    def __init__(self, bus: Connection, memory: Memory, delivery: str) -> None:
        super().__init__(bus, name=NAME, description="Remembers every turn and every rating.")
        self._memory = memory
        self.serve(delivery, self._receive)

    @classmethod
    async def open(cls, bus: Connection, memory: Memory) -> "MemoryAgent":
        """Make the streams and the durable consumer where they are missing."""
        await ensure_streams(bus)
        return cls(bus, memory, await ensure_turns_consumer(bus, NAME))

    async def _receive(self, message: Message) -> None:
        try:
            if message.subject == subjects.RESPONSE_FEEDBACK:
                await self._rate(message)
            else:
                await self._remember(message)
        except RequestError as error:
            await self._give_up(message, error)
            await acknowledge(self.bus, message)
        except Local2Error as error:
            log.warning("turn_postponed", subject=message.subject, reason=str(error))
            await ask_again(self.bus, message)
        else:
            await acknowledge(self.bus, message)

    async def _remember(self, message: Message) -> None:
        envelope = decode(message.data, Generation)
        turn = envelope.payload
        answered = turn.error is None and not is_unsure(turn)
        remembered = Turn(
            query=turn.query,
            answer=turn.answer if answered else None,
            at=in_utc(envelope.timestamp_utc or utc_now(), "timestamp_utc"),
            tool_calls=turn.tool_calls,
            session_id=turn.session_id or envelope.session_id,
            query_id=turn.query_id or envelope.query_id,
        )
        written = await self._memory.of(caller_of(envelope)).put_turn(remembered)
        log.info(
            "turn_remembered",
            id=written.id,
            was_new=written.was_new,
            answered=answered,
            session_id=remembered.session_id,
            query_id=remembered.query_id,
        )

    async def _rate(self, message: Message) -> None:
        envelope = decode(message.data, Feedback)
        rating = envelope.payload
        service = self._memory.of(caller_of(envelope))
        await service.rate(rating.query_id, rating.score, rating.comment)
        log.info("answer_rated", query_id=rating.query_id, score=rating.score)

    async def _give_up(self, message: Message, error: RequestError) -> None:
        log.warning("turn_refused", subject=message.subject, reason=str(error))
        text = message.data.decode("utf-8", "replace")[:DEAD_LETTER_CHARACTERS]
        letter = DeadLetter(subject=message.subject, reason=str(error), message=text)
        data = encode(seal(letter, type="dead_letter", source=NAME))
        await publish_durably(self.bus, subjects.MEMORY_DEAD_LETTER, data)


def is_unsure(turn: Generation) -> bool:
    """Whether the answer says no more than that nothing was found where not all was searched."""
    results = [call.content for call in turn.tool_calls]
    if not (any(map(why_in_part, results)) and all(map(is_nothing, results))):
        return False
    return UNANSWERED in read(turn.query, turn.answer, (), results).of_answer
