"""Make records of a turn: its episode, its messages and its tool results, under stable ids."""

from collections.abc import Iterator, Sequence
from datetime import datetime

import msgspec

from local2.ledger.operations.turns import Delivered
from local2.ledger.records import NewRecord
from local2.memory.intake.conversations import Conversation, MayBeOwn, SkipReason, records_of
from local2.memory.intake.echoes import OWN_RESULT
from local2.memory.intake.episodes import episode_text, new_episode
from local2.protocol.conversation import ConversationMessage
from local2.protocol.envelope import Caller, content_id
from local2.protocol.payloads import Json, ToolCallRecord, preview
from local2.settings import TOOL_OUTPUT_LIMIT


class Turn(msgspec.Struct, frozen=True, kw_only=True):
    """A question with its answer, or with None if the answer is not worth remembering.

    `shown`: the ids of the memories that its agent was shown unasked.
    `delivered`: its place in the stream, if one delivered it.
    """

    query: str
    answer: str | None
    at: datetime
    tool_calls: list[ToolCallRecord] = []
    session_id: str | None = None
    query_id: str | None = None
    metadata: Json = {}
    shown: Sequence[str] = ()
    delivered: Delivered | None = None

    def messages(self, turn_id: str, skip_reason: SkipReason) -> list[ConversationMessage]:
        """The messages of the turn, without calls of the memory's own tools."""
        asked, answered = f"{turn_id}:user", f"{turn_id}:agent"
        calls = [call for call in self.tool_calls if skip_reason(call) != OWN_RESULT]
        messages = [
            ConversationMessage(role="user", content=self.query, id=asked, timestamp=self.at)
        ]
        if calls:
            messages.append(
                ConversationMessage(role="assistant", tool_calls=calls, timestamp=self.at)
            )
        if self.answer is not None:
            messages.append(
                ConversationMessage(
                    role="assistant", content=self.answer, id=answered, timestamp=self.at
                )
            )
        return messages


def question_id_of(query: str, query_id: str, *, owner: str, session_id: str | None) -> str:
    """The record id of a turn's question, which also identifies the turn.

    Several turns may have the same query id.
    """
    return content_id("question", owner, session_id, query_id, query)


def records_of_turn(
    turn: Turn,
    caller: Caller,
    skip_reason: SkipReason = lambda _call: None,
    may_be_own: MayBeOwn = lambda _tool, _at: False,
) -> Iterator[NewRecord]:
    """Yield the turn's episode, messages and tool results. A turn without answer has no episode.

    Another answer gives the episode and the answer other ids, and no other record: the ids that the
    records have as messages of a conversation are replaced by ids that depend on the question.
    """
    metadata: Json = {
        **turn.metadata,
        "session_id": turn.session_id,
        "query_id": turn.query_id,
        "timestamp_utc": turn.at.isoformat(),
        "tool_calls": len(turn.tool_calls),
    }
    episode = new_episode(episode_text(turn.query, turn.answer), metadata, caller, turn.at)
    # Without a query id, the episode's id takes its place: it depends on question and answer.
    turn_id, owner, session_id = turn.query_id or episode.id, episode.owner, episode.session_id
    question = question_id_of(turn.query, turn_id, owner=owner, session_id=session_id)
    conversation = Conversation(
        messages=turn.messages(turn_id, skip_reason),
        owner=owner,
        agent=caller.agent,
        session_id=session_id,
        query_id=episode.query_id,
        now=turn.at,
        skip_reason=skip_reason,
        may_be_own=may_be_own,
    )
    episodes = () if turn.answer is None else (episode,)
    for record in (*episodes, *records_of(conversation)):
        is_question = record.role == "user"
        id_ = question if is_question else content_id(question, record.id, record.content)
        yield _with_preview(msgspec.structs.replace(record, id=id_, turn=question))


def _with_preview(record: NewRecord) -> NewRecord:
    """The record of a long tool output with its preview, unless its agent sent one.

    The key depends on the record, so that a turn which is delivered again gets the same one.
    """
    is_long = record.kind == "tool_output" and len(record.content) > TOOL_OUTPUT_LIMIT
    if not is_long or "tool_output_key" in record.metadata:
        return record
    key = f"tout_{content_id('tool_output_key', record.id)}"
    return msgspec.structs.replace(
        record,
        content=preview(record.content, key, TOOL_OUTPUT_LIMIT),
        metadata={**record.metadata, "tool_output_key": key},
        output=record.content,
    )
