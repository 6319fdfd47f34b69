"""Send the items of a source to the stack, many at a time, and report what became of them.

Conversations and documents go to the tools `ingest` and `add_document`; facts are sent as lines of
an export, which keep their ids and times. All ids are made of the source's own, so sending
something again stores nothing twice, and an import that was interrupted is completed by another.
"""

import asyncio
from collections.abc import Callable, Coroutine, Iterator, Sequence
from typing import Any, TypeVar

import msgspec

from local2.background import give_up
from local2.client import Connection
from local2.client.access import ask_service, await_while_connected
from local2.client.tools import ask_tool
from local2.errors import (
    BadRequestError,
    InvalidArgumentsError,
    Local2Error,
    OverloadedError,
    TooLargeError,
)
from local2.protocol.conversation import IngestReport
from local2.protocol.envelope import Sender, content_id, new_id
from local2.protocol.maintenance import ImportRequest
from local2.protocol.memories import OwnerScope
from local2.protocol.memory_tools import (
    ADD_DOCUMENT,
    INGEST,
    MAX_CONTENT,
    AddDocument,
    AddedDocument,
)
from local2.protocol.payloads import Json, split_into_parts
from local2.protocol.portable import MAX_LINES_PER_MESSAGE, MESSAGE_LINE_BYTES, RecordLine
from local2.protocol.services import IMPORT
from local2.sources.items import (
    MAX_MESSAGE_BYTES,
    Conversation,
    Document,
    Fact,
    Item,
    LeftOut,
    batches,
    size_of,
)
from local2.sources.opening import TITLES, Format, Source

IN_FLIGHT = 16
"""How many requests are sent at once: enough for the stack never to wait for the importer."""
PART_ITEMS = 500
PART_BYTES = 200_000
"""How much is read ahead of what is sent."""
MESSAGE_BYTES = 500
"""About how many bytes a message has beside its text."""
PATIENCE = 60.0
"""Seconds to wait for an answer."""
REFUSALS = (BadRequestError, InvalidArgumentsError, TooLargeError)
"""Errors that concern what was sent, and nothing else of the source."""

T = TypeVar("T")


class SourceReport(msgspec.Struct, kw_only=True):
    """What became of a source.

    `conversations`, `facts` and `documents` are what it has; of its `messages`, facts and parts of
    documents, as records, so many were stored, changed, known before, or erased here on request
    earlier.
    """

    format: Format
    conversations: int = 0
    messages: int = 0
    facts: int = 0
    documents: int = 0
    stored: int = 0
    changed: int = 0
    known: int = 0
    erased: int = 0
    dry_run: bool = False
    left_out: list[LeftOut] = []

    @property
    def refused(self) -> int:
        """How much of what was left out was to be stored."""
        return sum(group.count for group in self.left_out if group.refused)

    def summary(self) -> str:
        """Tell people the counts."""
        read = [
            _counted(number, what)
            for number, what in (
                (self.conversations, "conversation"),
                (self.messages, "message"),
                (self.facts, "fact"),
                (self.documents, "document"),
            )
            if number
        ]
        records = [
            "nothing was sent" if self.dry_run else f"{_counted(self.stored, 'record')} stored"
        ]
        records += [f"{self.changed:,} changed"] if self.changed else []
        records += [] if self.dry_run else [f"{self.known:,} already known"]
        records += [f"{self.erased:,} erased before, and not stored again"] if self.erased else []
        count = sum(group.count for group in self.left_out)
        refused = f" ({self.refused:,} could not be stored)" if self.refused else ""
        records += [f"{count:,} left out{refused}"] if count else []
        return f"{TITLES[self.format]}, {', '.join(read) or 'nothing'}: {', '.join(records)}."


class Importer:
    """Sends what a source has, for one caller.

    `mine`: facts belong to the caller, whomever the source names. `on_sent` is called with the
    number of messages, facts or documents that have just been stored.
    """

    _bus: Connection

    def __init__(
        self,
        source: Source,
        caller: Sender,
        *,
        mine: bool,
        on_sent: Callable[[int], None],
    ) -> None:
        self._source = source
        self._left_out = source.left_out
        self._caller = caller
        self._mine = mine
        self._on_sent = on_sent
        self._tasks: set[asyncio.Task[None]] = set()
        self._report = SourceReport(format=source.format)
        self._broken: Local2Error | None = None

    @property
    def report(self) -> SourceReport:
        """What has become of the source so far."""
        return msgspec.structs.replace(self._report, left_out=self._left_out.groups())

    def count(self) -> None:
        """Only read and count everything; send nothing.

        Raises:
            Local2Error: The source cannot be read to its end.
        """
        self._report.dry_run = True
        for item in self._source.items():
            self._count_item(item)

    async def run(self, bus: Connection) -> None:
        """Read and send everything.

        Raises:
            Local2Error: The source or the stack failed; what was sent before stays stored.
        """
        self._bus = bus
        parts = split_into_parts(
            self._items_until_broken(), _size_of, max_bytes=PART_BYTES, max_items=PART_ITEMS
        )
        try:
            while part := await asyncio.to_thread(next, parts, None):
                for item in part:
                    self._count_item(item)
                    match item:  # facts are sent together
                        case Conversation():
                            if item.continues:
                                await self._finish(down_to=0)
                            await self._send(self._send_conversation, item)
                        case Document():
                            await self._send(self._send_document, item)
                facts = [item for item in part if isinstance(item, Fact)]
                lines = [(fact, line) for fact in facts if (line := self._line_of(fact))]
                for request in split_into_parts(
                    lines,
                    lambda line: len(line[1]),
                    max_bytes=MESSAGE_LINE_BYTES,
                    max_items=MAX_LINES_PER_MESSAGE,
                ):
                    await self._send(self._send_facts, request)
            await self._finish(down_to=0)
            if self._broken is not None:
                raise self._broken
        finally:
            self._source.stop()
            await give_up(*self._tasks)

    def _items_until_broken(self) -> Iterator[Item]:
        """Read the items; an error ends them, so that those that were read before are sent."""
        try:
            yield from self._source.items()
        except Local2Error as error:
            self._broken = error

    def _count_item(self, item: Item) -> None:
        match item:
            case Conversation():
                self._report.conversations += not item.continues
                self._report.messages += len(item.messages)
            case Fact():
                self._report.facts += 1
            case Document():
                self._report.documents += 1

    async def _send(self, send: Callable[[T], Coroutine[Any, Any, None]], what: T) -> None:
        """Begin a request as soon as few enough are under way."""
        await self._finish(down_to=IN_FLIGHT - 1)
        self._tasks.add(asyncio.create_task(send(what)))

    async def _finish(self, *, down_to: int) -> None:
        """Wait until no more than so many requests are under way; raise what one has raised."""
        while len(self._tasks) > down_to:
            done, self._tasks = await asyncio.wait(self._tasks, return_when=asyncio.FIRST_COMPLETED)
            for task in done:
                task.result()

    async def _send_conversation(self, conversation: Conversation) -> None:
        """Send the messages in order, and leave out those that are too large or refused."""
        fitting = []
        for message in conversation.messages:
            if size_of(message) <= MAX_MESSAGE_BYTES:
                fitting.append(message)
            else:
                self._left_out.refuse(
                    f"{conversation.id}: message {message.id}",
                    f"messages of more than {MAX_MESSAGE_BYTES:,} bytes",
                )
        for batch in batches(fitting):
            args: Json = {"messages": batch, "session_id": conversation.id}
            data = await self._call(INGEST.name, args, f"session {conversation.id}")
            if data is None:
                continue
            done = msgspec.convert(data, IngestReport)
            self._count(done.added, done.changed, done.known, done.erased)
            for skipped in done.skipped:
                name = batch[skipped.index].id or f"message {skipped.index + 1} of a request"
                self._left_out.add(f"{conversation.id}: {name}", skipped.reason)
            self._on_sent(len(batch))

    async def _send_document(self, document: Document) -> None:
        args = AddDocument(content=document.content, title=document.title, source=document.source)
        data = await self._call(ADD_DOCUMENT.name, args.given(), document.source)
        if data is not None:
            done = msgspec.convert(data, AddedDocument)
            self._count(done.added, done.replaced, done.unchanged, 0)
            self._on_sent(1)

    async def _send_facts(self, lines: Sequence[tuple[Fact, bytes]]) -> None:
        request = ImportRequest(number=1, lines=[msgspec.Raw(line) for _, line in lines])
        done = await self._patiently(lambda: ask_service(self._bus, IMPORT, request, self._caller))
        for refused in done.refused:
            fact, _ = lines[refused.line - 1]
            self._left_out.refuse(f"{fact.id}: {refused.problem}", "refused by the memory")
        self._count(
            done.new.get("record", 0), done.replaced, done.known.get("record", 0), done.erased
        )
        self._on_sent(len(lines))

    async def _call(self, tool: str, args: Json, name: str) -> Any:
        """Call a tool; return its data, or None if it refuses what was sent.

        Raises:
            Local2Error: It fails for another reason.
        """

        async def call() -> Any:
            caller = msgspec.structs.replace(self._caller, query_id=new_id())
            result = await ask_tool(self._bus, tool, args, caller=caller, timeout=PATIENCE)
            if result.error is None:
                return result.data
            raise result.error.to_error()

        try:
            return await self._patiently(call)
        except REFUSALS as error:
            self._left_out.refuse(f"{name}: {error}", "refused by the memory")
            return None

    async def _patiently(self, work: Callable[[], Coroutine[Any, Any, T]]) -> T:
        """Do something again for as long as the stack is too busy for it."""
        while True:
            try:
                return await await_while_connected(self._bus, work())
            except OverloadedError as error:
                await asyncio.sleep(error.retry_after or 1.0)

    def _line_of(self, fact: Fact) -> bytes | None:
        """Make the line of an export that a fact is stored with; None if it is too long.

        Its id is made of that of the source and of the text: a text that was changed there since
        is another fact, and the later one.
        """
        if len(fact.content) > MAX_CONTENT:
            self._left_out.refuse(fact.id, f"facts of more than {MAX_CONTENT:,} characters")
            return None
        scope: OwnerScope = "user"
        owner = self._caller.user or ""
        if not self._mine and fact.user:
            owner = fact.user
        elif not self._mine and fact.agent:
            scope, owner = "agent", fact.agent
        line = RecordLine(
            id=content_id("imported", scope, owner, fact.id, fact.content),
            kind="fact",
            content=fact.content,
            event_time=fact.event_time,
            source_class="asserted",
            scope=scope,
            owner=owner,
            source_ref=fact.id,
            memory_type=fact.memory_type,
            metadata=fact.metadata,
            agent=self._caller.agent,
            stated_by=owner if scope == "user" else self._caller.user or "",
        )
        return msgspec.json.encode(line)

    def _count(self, stored: int, changed: int, known: int, erased: int) -> None:
        self._report.stored += stored
        self._report.changed += changed
        self._report.known += known
        self._report.erased += erased


def _counted(number: int, what: str) -> str:
    return f"{number:,} {what}{'s'[: number != 1]}"


def _size_of(item: Item) -> int:
    """About how many bytes an item has in its file."""
    if isinstance(item, Conversation):
        return sum(MESSAGE_BYTES + len(message.content or "") for message in item.messages)
    return len(item.content)
