"""A turn to records: its episode, and its messages and tool results, each under a stable id."""

from collections.abc import Iterator
from datetime import datetime

import msgspec

from local.ledger.records import NewRecord
from local.memory.intake.episodes import new_episode
from local.memory.intake.messages import Conversation, MayBeOwn, WhyNot, records_of
from local.memory.intake.own_tools import OWN_RESULT
from local.protocol.conversation import ConversationMessage
from local.protocol.envelope import Caller, content_id
from local.protocol.payloads import Json, ToolCallRecord


class Turn(msgspec.Struct, frozen=True, kw_only=True):
    """One question with its answer; None: it is not worth remembering, and the question is."""

    query: str
    answer: str | None
    at: datetime
    tool_calls: list[ToolCallRecord] = []
    session_id: str | None = None
    query_id: str | None = None
    metadata: Json = {}

    def messages(self, turn_id: str, why_not: WhyNot) -> list[ConversationMessage]:
        """The turn as the messages that it was; without calls of the memory itself."""
        asked, answered = f"{turn_id}:user", f"{turn_id}:agent"
        calls = [call for call in self.tool_calls if why_not(call) != OWN_RESULT]
        told = [ConversationMessage(role="user", content=self.query, id=asked, timestamp=self.at)]
        if calls:
            told.append(ConversationMessage(role="assistant", tool_calls=calls, timestamp=self.at))
        if self.answer is not None:
            told.append(
                ConversationMessage(
                    role="assistant", content=self.answer, id=answered, timestamp=self.at
                )
            )
        return told


def question_of(query: str, query_id: str, *, owner: str, session_id: str | None) -> str:
    """The id of a turn's question, which tells the turn from others of the same query id."""
    return content_id("question", owner, session_id, query_id, query)


def records_of_turn(
    turn: Turn,
    caller: Caller,
    why_not: WhyNot = lambda _call: None,
    may_be_own: MayBeOwn = lambda _tool, _at: False,
) -> Iterator[NewRecord]:
    """The turn's episode, and its messages and tool results; no episode where it failed.

    Only episode and answer depend on what was answered; another answer makes others of them.
    """
    metadata: Json = {
        **turn.metadata,
        "session_id": turn.session_id,
        "query_id": turn.query_id,
        "timestamp_utc": turn.at.isoformat(),
        "tool_calls": len(turn.tool_calls),
    }
    episode = new_episode(f"Q: {turn.query}\nA: {turn.answer}", metadata, caller, turn.at)
    named, owner, session_id = turn.query_id or episode.id, episode.owner, episode.session_id
    question = question_of(turn.query, named, owner=owner, session_id=session_id)
    conversation = Conversation(
        messages=turn.messages(named, why_not),
        owner=owner,
        agent=caller.agent,
        session_id=session_id,
        query_id=episode.query_id,
        now=turn.at,
        why_not=why_not,
        may_be_own=may_be_own,
    )
    answered = () if turn.answer is None else (episode,)
    for record in (*answered, *records_of(conversation)):
        own = content_id(question, record.id, record.content)
        id_ = question if record.role == "user" else own
        yield msgspec.structs.replace(record, id=id_, turn=question)
