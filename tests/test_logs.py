"""The log: one JSON line per event, written by a separate thread."""

import asyncio
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import structlog

from local2.errors import UnwritableError
from local2.logs import logging_to


@pytest.fixture
def file(tmp_path: Path) -> Path:
    """A separate log for the test; afterwards the session's log is used again."""
    return tmp_path / "folder" / "own.log"


def lines(file: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in file.read_text().splitlines()]


def test_an_event_is_one_json_line_with_its_time_level_and_process(file: Path) -> None:
    with logging_to(file, process="worker"):
        structlog.get_logger().bind(tool="save_topic").info("request", outcome="ok\nline two")

    (line,) = lines(file)
    assert line.pop("timestamp").endswith("+00:00")
    assert line == {
        "event": "request",
        "level": "info",
        "process": "worker",
        "tool": "save_topic",
        "outcome": "ok\nline two",
    }


def test_an_unwritable_file_is_an_error_that_names_it(tmp_path: Path) -> None:
    (tmp_path / "logs").touch()

    with (
        pytest.raises(UnwritableError, match=r"logs/own\.log cannot be written to"),
        logging_to(tmp_path / "logs" / "own.log"),
    ):
        pass


def test_everything_logged_is_written_when_the_context_ends(file: Path) -> None:
    with logging_to(file):
        for number in range(5000):
            structlog.get_logger().info("event", number=number)

    assert [line["number"] for line in lines(file)] == list(range(5000))


def test_events_below_the_level_are_dropped(file: Path) -> None:
    with logging_to(file, level="warning"):
        structlog.get_logger().info("too quiet")
        structlog.get_logger().warning("loud enough")

    assert [line["event"] for line in lines(file)] == ["loud enough"]


def test_an_exception_is_logged_with_its_traceback(file: Path) -> None:
    with logging_to(file):
        try:
            int("seven")
        except ValueError:
            structlog.get_logger().exception("failed")

    (line,) = lines(file)
    assert "Traceback" in line["exception"]
    assert "ValueError: invalid literal" in line["exception"]


def test_a_value_without_a_json_form_is_written_as_text(file: Path) -> None:
    with logging_to(file):
        structlog.get_logger().info("event", problem=ValueError("odd"), path=Path("a/b"))

    (line,) = lines(file)
    assert (line["problem"], line["path"]) == ("odd", "a/b")


def test_a_new_context_appends_to_the_log(file: Path) -> None:
    for number in range(2):
        with logging_to(file):
            structlog.get_logger().info("start", number=number)

    assert [line["number"] for line in lines(file)] == [0, 1]


def test_when_the_context_ends_events_go_to_the_former_log(file: Path, tmp_path: Path) -> None:
    with logging_to(file):
        with logging_to(tmp_path / "inner.log"):
            structlog.get_logger().info("inner")
        structlog.get_logger().info("outer")

    assert [line["event"] for line in lines(file)] == ["outer"]


def test_without_a_file_events_go_to_standard_error(
    file: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    with logging_to():
        structlog.get_logger().info("hello")

    assert '"event":"hello"' in capfd.readouterr().err
    assert not file.exists()


def test_a_text_with_invalid_unicode_is_written_escaped(file: Path) -> None:
    with logging_to(file):
        structlog.get_logger().info("event", text="a lone \ud800")
        structlog.get_logger().info("next")

    assert [line["event"] for line in lines(file)] == ["event", "next"]
    assert lines(file)[0]["text"] == "a lone \ud800"


EVENTS = 30_000


async def child(code: str, *arguments: object, errors: int) -> asyncio.subprocess.Process:
    """Return a process that logs."""
    return await asyncio.create_subprocess_exec(
        sys.executable,
        "-c",
        f"import structlog\nfrom local2.logs import logging_to\n{code}",
        *map(str, arguments),
        stderr=errors,
    )


MUCH = f"""
with logging_to():
    for number in range({EVENTS}):
        structlog.get_logger().info("event", number=number)
"""


async def test_a_process_whose_log_is_a_full_pipe_can_exit() -> None:
    reading, writing = os.pipe()  # nobody reads from the pipe
    process = await child(MUCH, errors=writing)
    try:
        async with asyncio.timeout(20):
            assert await process.wait() == 0
    finally:
        os.close(reading)
        os.close(writing)


async def test_a_process_whose_log_has_lost_its_reader_can_exit() -> None:
    reading, writing = os.pipe()
    os.close(reading)
    process = await child(MUCH, errors=writing)
    os.close(writing)

    async with asyncio.timeout(20):
        assert await process.wait() == 0


FULL_AND_EMPTIED = f"""
import os, resource, sys, threading, time
from pathlib import Path
file = Path(sys.argv[1])
refused, write = threading.Event(), os.write
def watched(*arguments):
    try:
        return write(*arguments)
    except OSError:
        refused.set()
        raise
os.write = watched
_, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
log = structlog.get_logger()
with logging_to(file):
    log.info("first")
    while not file.stat().st_size:
        time.sleep(.01)
    resource.setrlimit(resource.RLIMIT_FSIZE, (5_000, hard))
    for number in range({EVENTS}):
        log.info("event", number=number)
        if number == 100:
            refused.wait()
    resource.setrlimit(resource.RLIMIT_FSIZE, (hard, hard))
    while file.stat().st_size <= 5_000:
        time.sleep(.01)
    log.info("last")
"""


async def test_lines_lost_to_a_full_disk_are_counted_once_there_is_space(file: Path) -> None:
    process = await child(FULL_AND_EMPTIED, file, errors=asyncio.subprocess.DEVNULL)

    assert await process.wait() == 0
    whole: list[dict[str, Any]] = []
    cut = 0
    for line in file.read_text().splitlines():
        try:
            whole.append(json.loads(line))
        except ValueError:
            cut += 1
    dropped = sum(line["count"] for line in whole if line["event"] == "log_events_dropped")
    written = sum(line["event"] != "log_events_dropped" for line in whole)
    assert whole[-1]["event"] == "last"
    assert cut <= 1
    assert dropped > 0
    assert written + dropped == EVENTS + 2


def test_client_names_of_sessions_and_queries_are_not_logged(tmp_path: Path) -> None:
    file = tmp_path / "log"
    with logging_to(file):
        for session_id in ("about my divorce", "about my divorce", None):
            structlog.get_logger().info("request", session_id=session_id, query_id="q of ada")

    text = file.read_text()
    sessions = [json.loads(line)["session_id"] for line in text.splitlines()]
    assert "divorce" not in text
    assert "ada" not in text
    assert sessions[0] == sessions[1]
    assert sessions[2] is None


def test_events_go_to_the_innermost_log_although_structlog_is_imported_for_the_first(
    tmp_path: Path,
) -> None:
    code = """
import sys
from pathlib import Path
from local2.logs import get_logger, is_configured, logging_to

log, folder = get_logger(), Path(sys.argv[1])
with logging_to(folder / "silent.log"):
    pass
assert not is_configured()
with logging_to(folder / "outer.log"):
    with logging_to(folder / "inner.log"):
        assert is_configured() and "structlog" not in sys.modules
        log.info("inside")
    log.info("outside")
import structlog
assert not structlog.is_configured() and not is_configured()
"""
    subprocess.run([sys.executable, "-c", code, tmp_path], check=True)

    written = [lines(tmp_path / f"{name}.log") for name in ("silent", "inner", "outer")]
    assert [[line["event"] for line in log] for log in written] == [[], ["inside"], ["outside"]]
