"""Long tool outputs are stored whole, shown as previews, and read back by their owner only."""

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack

import msgspec
import pytest

from calling import RICHARD, UNNAMED, call, caller_named
from factories import ConnectBus
from local2.bus import outputs
from local2.bus.connection import BusMessage, Connection
from local2.bus.tool_host import ToolHost
from local2.client.tools import call_tool
from local2.memory.long_outputs import LongOutputs
from local2.memory.tenant import Memories, Memory
from local2.protocol.envelope import Caller, decode, encode, seal
from local2.protocol.memory_tools import READ_TOOL_OUTPUT
from local2.protocol.payloads import OutputPart, ToolResult
from local2.protocol.tool import Tool, ToolOutput
from local2.settings import TOOL_OUTPUT_LIMIT
from local2.tools.catalog import bind
from serving import service_host

EVE = caller_named("eve", agent="shell", session_id="s1")
KEY = "tout_" + "0123456789ab" * 2
MEGABYTES = 3 * 1024 * 1024


class NoArgs(msgspec.Struct):
    pass


class Page(msgspec.Struct):
    text: str = ""


class Book:
    """A tool whose content and data the test sets."""

    def __init__(self) -> None:
        self.content = ""
        self.data = Page()

    async def run(self, _: Caller, args: NoArgs) -> ToolOutput:
        assert isinstance(args, NoArgs)
        return ToolOutput(content=self.content, data=self.data)

    def tool(self, *, whole: bool = False) -> Tool:
        return Tool(
            name="book",
            description="Read a book.",
            version="1.0.0",
            args=NoArgs,
            run=self.run,
            whole=whole,
        )


@pytest.fixture
async def book(bus: Connection) -> AsyncIterator[Book]:
    book = Book()
    async with ToolHost(bus, book.tool()):
        yield book


@pytest.fixture
async def keeper(connect_bus: ConnectBus, memory: Memory) -> AsyncIterator[Memory]:
    """Serve a memory that stores outputs and lets callers read them, on a separate connection."""
    bus = await connect_bus()
    async with AsyncExitStack() as serving:
        await serving.enter_async_context(service_host("output_keeper", bus, Memories(memory)))
        await serving.enter_async_context(ToolHost(bus, bind(READ_TOOL_OUTPUT, Memories(memory))))
        yield memory


async def call_book(bus: Connection, caller: Caller = RICHARD) -> ToolResult:
    return await call_tool(bus, "book", {}, caller=caller)


async def read(bus: Connection, key: str | None, caller: Caller = RICHARD) -> str:
    """Read the whole output, piece by piece."""
    text, offset = "", 0
    while offset is not None:
        args = {"tool_output_key": key, "offset": offset, "limit": 64_000}
        piece = await call(bus, "read_tool_output", args, caller)
        text += piece["content"]
        offset = piece["next_offset"]
    return text


async def send_part(
    bus: Connection, text: str, offset: int = 0, *, last: bool = False, user: str = "richard"
) -> ToolResult:
    part = OutputPart(key=KEY, offset=offset, text=text, last=last)
    data = encode(seal(part, type="request", source="test", user=user))
    return decode((await bus.request("memory.output.keep", data)).data, ToolResult).payload


async def read_refusal(bus: Connection, key: str, caller: Caller) -> str:
    result = await call_tool(bus, "read_tool_output", {"tool_output_key": key}, caller=caller)
    assert result.error is not None
    assert result.error.code == "invalid_arguments"
    return result.error.message


@pytest.mark.parametrize(
    "pattern",
    [
        pytest.param("Words in lines.\n", id="text"),
        pytest.param('\x00\x01\x1f"\\\n', id="only escaped characters"),
        pytest.param("é漢🎻\u2028", id="beyond ASCII"),
    ],
)
@pytest.mark.usefixtures("keeper")
async def test_an_output_of_megabytes_is_read_back_whole(
    bus: Connection, book: Book, pattern: str
) -> None:
    book.content = (pattern * MEGABYTES)[: MEGABYTES // 4] + "🎻" * (MEGABYTES // 16)

    result = await call_book(bus)

    assert result.ok, result.content
    assert result.total_chars == len(book.content)
    assert await read(bus, result.tool_output_key) == book.content


@pytest.mark.usefixtures("keeper")
async def test_a_preview_names_its_key_first_and_shows_the_beginning_and_the_end(
    bus: Connection, book: Book
) -> None:
    book.content = "".join(f"Line {n}.\n" for n in range(10_000))

    result = await call_book(bus)

    first, *lines = result.content.split("\n")
    assert first == (
        f"[Output of {len(book.content)} characters, shortened; "
        f'read_tool_output(tool_output_key="{result.tool_output_key}", offset=3072) reads on.]'
    )
    assert lines[:2] == ["Line 0.", "Line 1."]
    assert result.content.endswith("Line 9999.\n")
    assert len(result.content) < TOOL_OUTPUT_LIMIT
    shown, _ = result.content.removeprefix(f"{first}\n").split("\n[…]\n")
    assert shown == book.content[:3072], "reading on begins where the preview breaks off"


@pytest.mark.parametrize("length", [0, TOOL_OUTPUT_LIMIT])
@pytest.mark.usefixtures("keeper")
async def test_an_output_within_the_limit_is_returned_unchanged(
    bus: Connection, book: Book, length: int
) -> None:
    book.content = "x" * length

    assert await call_book(bus) == ToolResult(ok=True, content=book.content, data={"text": ""})


@pytest.mark.usefixtures("keeper")
async def test_a_host_can_set_its_own_output_limit(bus: Connection) -> None:
    book = Book()
    book.content = "x" * 1_001
    async with ToolHost(bus, book.tool(), output_limit=1_000):
        result = await call_book(bus)

    assert result.total_chars == 1_001


@pytest.mark.usefixtures("keeper")
async def test_an_output_of_a_memory_tool_is_neither_stored_nor_shortened(bus: Connection) -> None:
    book = Book()
    book.content = "x" * 100_000
    async with ToolHost(bus, book.tool(whole=True)):
        result = await call_book(bus)

    assert (result.content, result.tool_output_key) == (book.content, None)


@pytest.mark.usefixtures("keeper")
async def test_data_too_large_for_the_bus_is_left_out_of_a_preview_with_a_note(
    bus: Connection, book: Book
) -> None:
    book.content, book.data = "words " * 10_000, Page(text="x" * MEGABYTES)

    result = await call_book(bus)

    assert (result.ok, result.data) == (True, None)
    assert result.content.endswith("\n(The data is left out: it is too large for the bus.)")
    assert await read(bus, result.tool_output_key) == book.content


@pytest.mark.usefixtures("keeper")
async def test_data_too_large_for_the_bus_is_left_out_of_a_short_result(
    bus: Connection, book: Book
) -> None:
    book.content, book.data = "Here it is.", Page(text="x" * MEGABYTES)

    result = await call_book(bus)

    assert (result.ok, result.data) == (True, None)
    assert result.content.startswith("Here it is.\n(The data is left out")


async def test_without_a_memory_outputs_that_fit_the_bus_are_returned_whole(
    bus: Connection, book: Book
) -> None:
    book.content = "x" * 500_000
    fitting = await call_book(bus)
    book.content = "x" * MEGABYTES
    large = await call_book(bus)

    assert (len(fitting.content), fitting.tool_output_key) == (500_000, None)
    assert large.outcome == "too_large"


async def test_a_memory_that_refuses_leaves_the_output_whole(bus: Connection, book: Book) -> None:
    refusal = {"ok": False, "content": "", "error": {"code": "unavailable", "message": "Full."}}

    async def refuse(message: BusMessage) -> None:
        await bus.publish(message.reply, json.dumps({"payload": refusal}).encode())

    subscription = await bus.subscribe("memory.output.keep", refuse)
    book.content = "x" * 100_000
    result = await call_book(bus)
    await subscription.stop(grace=1)

    assert (result.content, result.tool_output_key) == (book.content, None)


async def test_a_memory_that_never_answers_leaves_the_output_whole(
    bus: Connection, book: Book, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(outputs, "KEEP_TIMEOUT", 0.05)
    asked = asyncio.Event()

    async def ignore(_: BusMessage) -> None:
        asked.set()

    subscription = await bus.subscribe("memory.output.keep", ignore)
    book.content = "x" * 100_000
    result = await call_book(bus)
    await subscription.stop(grace=1)

    assert asked.is_set()
    assert (result.content, result.tool_output_key) == (book.content, None)


@pytest.mark.usefixtures("keeper")
async def test_nobody_else_can_read_an_output(bus: Connection, book: Book) -> None:
    book.content = "secret " * 10_000
    key = (await call_book(bus)).tool_output_key
    assert key is not None

    for stranger in (EVE, UNNAMED):
        assert await read_refusal(bus, key, stranger) == (
            f"tool_output_key: you have no tool output {key!r}. "
            "Copy the key exactly as the preview names it."
        )
    assert await read(bus, key) == book.content


@pytest.mark.usefixtures("keeper")
async def test_nobody_else_can_add_to_an_output(bus: Connection) -> None:
    assert (await send_part(bus, "secret")).ok

    assert not (await send_part(bus, " and more", 6, last=True, user="eve")).ok
    assert (await send_part(bus, "mine", 0, last=True, user="eve")).ok
    assert (await send_part(bus, " words", 6, last=True)).ok

    assert await read(bus, KEY) == "secret words"
    assert await read(bus, KEY, EVE) == "mine"


@pytest.mark.usefixtures("keeper")
async def test_an_output_whose_sender_stopped_in_the_middle_cannot_be_read(
    bus: Connection,
) -> None:
    await send_part(bus, "The first")
    await send_part(bus, " half", 9)

    assert await read_refusal(bus, KEY, RICHARD) == (
        f"tool_output_key: {KEY} is not complete; its sender stopped before the end. "
        "Call the tool again."
    )


@pytest.mark.parametrize(
    ("text", "offset", "last"),
    [
        pytest.param("two", 5, False, id="a gap"),
        pytest.param("two", 3, False, id="an overlap"),
        pytest.param("ONE ", 0, False, id="another text in its place"),
        pytest.param("one ", 0, True, id="the last one after all"),
    ],
)
@pytest.mark.usefixtures("keeper")
async def test_a_part_that_does_not_continue_the_output_is_refused_and_changes_nothing(
    bus: Connection, text: str, offset: int, last: bool
) -> None:
    await send_part(bus, "one ")

    answer = await send_part(bus, text, offset, last=last)

    assert answer.outcome == "invalid_arguments"
    assert (await send_part(bus, "two", 4, last=True)).ok
    assert await read(bus, KEY) == "one two"


@pytest.mark.usefixtures("keeper")
async def test_a_part_whose_storing_fails_is_answered_with_the_failure(
    bus: Connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def fail(_: LongOutputs, part: OutputPart) -> None:
        raise RuntimeError(part.key)

    monkeypatch.setattr(LongOutputs, "store_part", fail)

    result = await send_part(bus, "One.")

    assert result.error is not None
    assert (result.error.code, KEY in result.error.message) == ("internal", False)


@pytest.mark.parametrize(
    "part",
    [
        pytest.param({"key": "tout_1", "offset": 0, "text": "x"}, id="a short key"),
        pytest.param({"key": f"{KEY}\n", "offset": 0, "text": "x"}, id="a key of two lines"),
        pytest.param({"key": KEY, "offset": -1, "text": "x"}, id="before the beginning"),
        pytest.param({"key": KEY, "offset": 2**64, "text": "x"}, id="beyond 64 bits"),
        pytest.param({"key": KEY, "offset": 0, "text": ""}, id="no text"),
    ],
)
@pytest.mark.usefixtures("keeper")
async def test_a_malformed_part_is_refused(bus: Connection, part: dict[str, object]) -> None:
    data = json.dumps({"payload": part}).encode()
    answer = decode((await bus.request("memory.output.keep", data)).data, ToolResult).payload

    assert answer.outcome == "bad_request"
