"""JSON lines become conversations, and a file that was not sent completely is reported."""

import asyncio
import json
import os
import signal
from asyncio.subprocess import PIPE, Process
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from commands import COMMAND
from local2.bus.connection import BusMessage, Connection, connect
from local2.bus.server import embedded_server
from local2.cli.ingest import IngestedFile, sessions_in
from local2.errors import BadRequestError
from local2.protocol.conversation import IngestReport, SkippedMessage
from local2.protocol.envelope import encode, seal
from local2.protocol.payloads import ToolResult
from local2.sources.items import BATCH_MESSAGES, MAX_MESSAGE_BYTES

LOST = "The connection to the stack was lost."
AGAIN = "Ingest the file again: nothing is stored twice."


def lines(*messages: object) -> bytes:
    return "\n".join(json.dumps(message) for message in messages).encode()


def line_with(**fields: Any) -> dict[str, Any]:
    return {"role": "user", "content": "yes", **fields}


@pytest.mark.parametrize(
    ("line", "problem"),
    [
        (b"{role: user}", "JSON"),
        (b'{"role": "user", "content": ' + b"[" * 5_000, ""),
        (b'{"role": "user", "content": "\xff"}', ""),
        (b'["user", "yes"]', "object"),
        (b'{"content": "yes"}', "role"),
        (b'{"role": "", "content": "yes"}', "role"),
        (b'{"role": "user", "body": "yes"}', "neither content nor tool_calls"),
        (b'{"role": "assistant", "tool_calls": [{"id": "c1"}]}', r"tool_calls\[0\]: "),
        (lines(line_with(content="ü" * (MAX_MESSAGE_BYTES // 2))), "900,000 bytes"),
        (lines(line_with(session_id=["s1"])), "session_id"),
        (lines(line_with(timestamp="noon")), "timestamp: 'noon'"),
        (lines(line_with(timestamp="2023-W22")), "timestamp: '2023-W22'"),
        (lines(line_with(timestamp="0001-01-01T00:00:00+02:00")), "calendar"),
    ],
    ids=lambda value: value[:40],
)
def test_an_invalid_line_is_named(line: bytes, problem: str) -> None:
    with pytest.raises(BadRequestError, match=rf"^Line 2 is not a message: .*{problem}"):
        list(sessions_in([lines(line_with()), line], None))


def test_half_an_emoji_in_a_line_is_replaced() -> None:
    (session,) = sessions_in([lines(line_with(content="cut \ud83d"))], None)

    assert session.messages[0].content == "cut \ufffd"


def test_a_session_id_may_be_a_number() -> None:
    (session,) = sessions_in(
        [lines(line_with(session_id=7)), lines(line_with(session_id="7"))], None
    )

    assert (session.id, len(session.messages)) == ("7", 2)


def test_additional_fields_of_a_line_are_sent_with_it() -> None:
    (session,) = sessions_in(
        [lines(line_with(model="gemma4", usage={"tokens": 7})), lines(line_with())], "s1"
    )

    assert [message.content for message in session.messages] == ["yes", "yes"]
    assert session.messages[0].fields == {"model": "gemma4", "usage": {"tokens": 7}}


def test_the_counts_of_a_file_are_the_sums_of_its_parts() -> None:
    own = SkippedMessage(index=3, reason="answered by this memory itself")
    parts = [
        IngestReport(session_id="s1", ids=["1", "2"], added=1, changed=1, skipped=[own]),
        IngestReport(session_id="s1", ids=["3", "2"], added=1, known=1, skipped=[own]),
    ]
    done = IngestedFile(sessions=["s1"])
    for part in parts:
        done = done.plus(part)

    assert done.summary() == (
        "2 stored, 1 changed, 1 already known, 2 left out (answered by this memory itself)."
    )


def test_a_date_is_read_as_a_time() -> None:
    (session,) = sessions_in([lines(line_with(timestamp="2023-05-01"))], "s1")

    assert str(session.messages[0].timestamp) == "2023-05-01 00:00:00"


async def start_ingest(url: str, folder: Path, files: Sequence[str]) -> Process:
    return await asyncio.create_subprocess_exec(
        *(*COMMAND, "ingest", *files),
        cwd=folder,
        env={**os.environ, "LOCAL2_BUS__URL": url},
        stdout=PIPE,
        stderr=PIPE,
    )


async def serve_first(bus: Connection) -> asyncio.Event:
    """Answer the first request of `ingest`; return an event that the second request sets."""
    second_request = asyncio.Event()
    answered = False

    async def ingest(message: BusMessage) -> None:
        nonlocal answered
        if answered:
            second_request.set()
            return
        answered = True
        ids = [str(number) for number in range(BATCH_MESSAGES)]
        done = IngestReport(session_id="s1", ids=ids, added=len(ids) - 1, known=1)
        result = ToolResult(ok=True, content="", data=done)
        await bus.publish(message.reply, encode(seal(result, type="result", source="ingest")))

    await bus.subscribe("tool.request.ingest", ingest)
    await bus.flush()
    return second_request


@pytest.fixture
def talks(tmp_path: Path) -> list[str]:
    """Write two files, the first of them too long for one request."""
    (tmp_path / "long.jsonl").write_bytes(lines(*[line_with()] * (BATCH_MESSAGES + 1)))
    (tmp_path / "short.jsonl").write_bytes(lines(line_with()))
    return ["long.jsonl", "short.jsonl"]


async def test_the_command_does_not_wait_for_a_stack_that_died(
    tmp_path: Path, talks: list[str]
) -> None:
    async with (
        embedded_server(tmp_path / "bus", host="127.0.0.1", port=-1) as server,
        connect(server.url, name="test") as bus,
    ):
        second_request = await serve_first(bus)
        process = await start_ingest(server.url, tmp_path, talks)
        await second_request.wait()
    printed, errors = await process.communicate()

    assert (process.returncode, printed) == (1, b"")
    assert errors.decode().splitlines()[-2:] == [
        f"long.jsonl: 999 stored, 1 already known. Then: {LOST} {AGAIN}",
        f"short.jsonl: 0 stored, 0 already known. Then: {LOST} {AGAIN}",
    ]


async def test_an_interrupted_command_reports_its_progress(
    bus: Connection, nats_url: str, tmp_path: Path, talks: list[str]
) -> None:
    second_request = await serve_first(bus)
    process = await start_ingest(nats_url, tmp_path, talks)
    await second_request.wait()
    process.send_signal(signal.SIGINT)
    printed, errors = await process.communicate()

    assert (process.returncode, printed) == (130, b"")
    assert errors.decode() == (
        f"long.jsonl: 999 stored, 1 already known. Then: It was interrupted. {AGAIN}\n"
    )
