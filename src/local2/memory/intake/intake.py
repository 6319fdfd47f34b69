"""Store the conversations, turns, notes, questions, results and ratings that one caller sends."""

from collections.abc import Sequence
from datetime import datetime
from typing import Any

import msgspec

from local2.background import ITEM_READING, read_text
from local2.ledger.ledger import Ledger
from local2.ledger.operations.turns import Rating, parts_of
from local2.ledger.records import (
    LONG_TEXT,
    OWN_ONLY,
    NewRecord,
    Written,
    with_features,
    with_metadata,
)
from local2.memory.changes import Changes
from local2.memory.intake.conversations import (
    Conversation,
    Turn,
    question_id_of,
    read_records,
    records_of_turn,
)
from local2.memory.intake.echoes import EchoFinder, unanswered_metadata
from local2.memory.intake.episodes import new_note
from local2.memory.long_outputs import LongOutputs
from local2.memory.scopes import may_write, owner_of
from local2.protocol.conversation import (
    ConversationMessage,
    IngestReport,
    SkippedMessage,
    session_of,
)
from local2.protocol.envelope import Caller, Clock, content_id, new_id
from local2.protocol.payloads import Json, ToolCallRecord


class Question(msgspec.Struct, frozen=True, kw_only=True):
    """A user's question. `named`: the sender chose the query id."""

    text: str
    at: datetime
    session_id: str | None
    query_id: str | None
    named: bool


class Result(msgspec.Struct, frozen=True, kw_only=True):
    """A tool's result in a session. The id of `call` is the request's id."""

    call: ToolCallRecord
    at: datetime
    session_id: str
    query_id: str | None


class Intake:
    """Stores what one caller sends. When a method returns, it is on disk."""

    def __init__(
        self,
        ledger: Ledger,
        changes: Changes,
        echoes: EchoFinder,
        caller: Caller,
        clock: Clock,
    ) -> None:
        self._ledger = ledger
        self._changes = changes
        self._echoes = echoes
        self._caller = caller
        self._owner = owner_of(caller)
        self._outputs = LongOutputs(ledger, self._owner)
        self._clock = clock

    async def store_conversation(
        self,
        messages: Sequence[ConversationMessage],
        session_id: str | None = None,
        *,
        allow_again: bool = False,
    ) -> IngestReport:
        """Store a conversation word for word. Known messages are not stored again.

        Another text with the id of a known message is a newer version of it. Erased messages are
        stored again only with `allow_again`.
        """
        session = session_id or self._caller.session_id or session_of(messages)
        conversation = Conversation(
            messages=messages,
            owner=self._owner,
            agent=self._caller.agent,
            session_id=session,
            now=self._clock(),
            tools=self._echoes.tools,
        )

        def read() -> tuple[list[NewRecord], list[SkippedMessage]]:
            told = list(read_records(conversation))
            made = [with_features(part) for part in told if isinstance(part, NewRecord)]
            skipped = [part for part in told if isinstance(part, SkippedMessage)]
            return self._with_extraction(made), skipped

        texts = [message.content or "" for message in messages]
        texts += [call.content for message in messages for call in message.tool_calls]
        made, skipped = await read_text(read, reading_of(texts))
        records = [await self._outputs.with_parts(record) for record in made]
        if allow_again:
            await self._ledger.erasures.lift(records)
        written = await self._ledger.conversations.store(records, self._changes.written)
        return IngestReport(
            session_id=session,
            ids=[record.id for record in written],
            added=sum(record.was_new and not record.replaced for record in written),
            changed=sum(bool(record.replaced) for record in written),
            known=sum(not (record.was_new or record.erased) for record in written),
            skipped=skipped,
            erased=sum(record.erased for record in written),
        )

    async def store_question(self, question: Question) -> Written:
        """Store a question as soon as it is received, even if its turn fails later.

        The turn that reports it later does not add it again.
        """
        id_ = question_id_of(
            question.text,
            question.query_id or new_id(),
            owner=self._owner,
            session_id=question.session_id,
        )
        record = self._received(
            id=id_,
            kind="chat_message",
            content=question.text,
            role="user",
            source_ref=f"{question.query_id}:user" if question.query_id else None,
            event_time=question.at,
            session_id=question.session_id,
            query_id=question.query_id,
            turn=id_,
            metadata={
                **unanswered_metadata(question.text),
                **({} if question.named else {"unnamed": True}),
            },
        )
        return await self._store_received(record)

    async def store_result(self, result: Result) -> Written:
        """Store a tool's result as soon as it is received.

        The turn or conversation that reports it later does not add it again.
        """
        call = result.call
        metadata: Json = {"args": call.args} if call.args else {}
        if call.tool_output_key:
            metadata["tool_output_key"] = call.tool_output_key
        identity = ["received", call.id or new_id(), call.name, call.content, call.args]
        record = self._received(
            id=content_id("tool_output", self._owner, result.session_id, identity),
            kind="tool_output",
            content=call.content,
            label=call.name,
            role="tool",
            source_ref=call.id,
            event_time=result.at,
            session_id=result.session_id,
            query_id=result.query_id,
            metadata=metadata,
        )
        return await self._store_received(await self._outputs.with_parts(record))

    async def store_turn(self, turn: Turn) -> Written:
        """Store a turn: its episode, messages and tool results.

        Another answer to the same question with the same query id replaces the older answer.
        """
        # A part of a turn of many calls is made, stored and dropped before the next: 18,000 records
        # at once would keep the event loop for longer than others should wait.
        records = records_of_turn(turn, self._caller, self._echoes.tools)
        parts = parts_of(map(with_features, records))
        calls = reading_of([call.content for call in turn.tool_calls])
        size = reading_of([turn.query, turn.answer or ""]) + calls
        made: list[NewRecord] = await read_text(next, size, parts, [])
        echo = await self._echoes.find(turn.query, turn.answer, turn.tool_calls, made[0])
        while made:
            part = self._with_extraction(
                [
                    await self._outputs.with_parts(with_metadata(record, echo.metadata(record)))
                    for record in made
                ]
            )
            written = await self._ledger.turns.store(
                part,
                derived_from=echo.sources,
                shown=[*turn.shown, *echo.shown],
                delivered=turn.delivered,
            )
            self._changes.written(written, part)
            made = await read_text(next, calls, parts, [])
        return written[0]

    async def store_episode(self, content: str, metadata: Json | None = None) -> Written:
        """Store a note of the user.

        Args:
            content: The text that is searched.
            metadata: Stored with the note, up to 4,096 bytes as JSON. `session_id`, `query_id` and
                `timestamp_utc` (ISO 8601) are interpreted; other names are free.

        Raises:
            InvalidArgumentsError: The content is blank, an id is invalid, `timestamp_utc` is not a
                time, or the metadata is too large or has a reserved name.
        """
        record = new_note(content, metadata or {}, self._caller, self._clock())
        (written,) = await self._ledger.turns.store([record])
        self._changes.written([written], [record])
        return written

    async def store_rating(
        self,
        query_id: str,
        score: float,
        comment: str | None = None,
        *,
        session_id: str | None = None,
        at: datetime | None = None,
    ) -> None:
        """Rate, from -1 to 1, the answer that was the valid one `at` a time, by default now.

        Without a session, the newest answer with the query id in any of the caller's sessions is
        rated.
        """
        rating = Rating(
            owner=self._owner,
            query_id=query_id,
            session_id=session_id,
            score=score,
            comment=comment,
            event_time=at or self._clock(),
        )
        await self._ledger.turns.rate(rating)

    def skip_reason(self, call: ToolCallRecord) -> str | None:
        """The reason why the result of a call is not recorded, or None if it is."""
        return self._echoes.tools.skip_reason(self._owner, call)

    def _received(self, **columns: Any) -> NewRecord:
        return NewRecord(owner=self._owner, agent=self._caller.agent, pending=True, **columns)

    def _with_extraction(self, records: Sequence[NewRecord]) -> list[NewRecord]:
        """The records with the tasks to extract facts from users' messages."""
        tasks, mark = self._changes.tasks_of_messages, {}
        if not may_write("tenant", self._caller):
            mark = {OWN_ONLY: True}  # extraction must not store facts for the tenant either
        return [
            msgspec.structs.replace(record, tasks=tasks, metadata={**record.metadata, **mark})
            if record.kind == "chat_message" and record.role == "user"
            else record
            for record in records
        ]

    async def _store_received(self, record: NewRecord) -> Written:
        record = await read_text(with_features, reading_of([record.content]), record)
        (record,) = self._with_extraction([record])
        written = await self._ledger.unreported.store(record)
        self._changes.written([written], [record])
        return written


def reading_of(texts: Sequence[str]) -> int:
    """How many characters making records of texts is like reading: only long ones are read then."""
    return ITEM_READING * len(texts) + sum(len(text) for text in texts if len(text) >= LONG_TEXT)
