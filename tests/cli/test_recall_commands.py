"""Filling the memory from files and asking it, each command a process of its own."""

import asyncio
import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import msgspec
import pytest

from cli.test_commands import START_SECONDS, Running, answer, local2
from local.bus.connection import Connection, Message
from local.cli.answers import SHOWN_LINES
from local.cli.ingest import BATCH_BYTES, BATCH_MESSAGES, batches
from local.cli.output import Output
from local.cli.recall import _show
from local.memory.recall.ranking import Shares
from local.memory.recall.synthesis import Answer
from local.tools.recall import Explanation, RecalledItem, RecalledItems
from recalling import said

COMMAND = [sys.executable, "-c", "from local.cli import main; main()"]
TALK = [
    {"role": "user", "content": "Which metal is the densest?", "timestamp": "2023-05-08T13:56:00Z"},
    {"role": "assistant", "content": "Osmium.", "timestamp": "2023-05-08T13:57:00Z"},
    {"role": "user", "content": "yes", "timestamp": "2023-05-09T08:00:00Z"},
    {"role": "user", "content": "yes", "timestamp": "2023-05-09T08:01:00Z"},
]
PLANTS = "# Plants\n\nWater the ficus on Mondays.\n"


@pytest.fixture(scope="module")
def running(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    stack = Running(tmp_path_factory.mktemp("stack"))
    yield stack
    stack.stop(signal.SIGTERM)


@pytest.fixture
def user(request: pytest.FixtureRequest) -> str:
    """Somebody of this test's own, as the stack is everybody's."""
    return str(request.node.name)


def lines(file: Path, messages: Sequence[object]) -> str:
    """Write a file of JSON lines; its name."""
    file.write_text("\n".join(json.dumps(message) for message in messages) + "\n")
    return str(file)


def recalled(folder: Path, query: str, *words: str) -> list[dict[str, Any]]:
    items: list[dict[str, Any]] = answer(folder, "recall", query, "--top-k", "20", *words)["items"]
    return items


def test_a_conversation_is_remembered_once(running: Running, tmp_path: Path, user: str) -> None:
    file = lines(tmp_path / "talk.jsonl", TALK)

    first = local2(running.folder, "ingest", file, "--user", user)
    again = answer(running.folder, "ingest", file, "--user", user)

    assert (first.returncode, first.stderr) == (0, "")
    assert first.stdout == f"{file}: 4 remembered, 0 known already.\n"
    (one,) = again
    assert (one["file"], one["data"]["remembered"], one["data"]["known"]) == (file, 0, 4)
    (session,) = one["data"]["sessions"]
    found = recalled(running.folder, "densest metal", "--user", user)
    assert {item["session_id"] for item in found} == {session}


def test_a_file_holds_what_the_tool_would_make_of_its_messages(
    running: Running, tmp_path: Path, user: str
) -> None:
    file = lines(tmp_path / "talk.jsonl", TALK)

    called = answer(
        running.folder, "call", "ingest", f"messages={json.dumps(TALK)}", "--user", user
    )
    (sent,) = answer(running.folder, "ingest", file, "--user", user)

    assert called["data"]["added"] == 4
    assert sent["data"] == {
        "sessions": [called["data"]["session_id"]],
        "remembered": 0,
        "known": 4,
    }


def test_lines_of_several_sessions_are_told_apart(
    running: Running, tmp_path: Path, user: str
) -> None:
    named = [{**line, "session_id": session} for line in TALK for session in ("a", "b")]
    file = lines(tmp_path / "talk.jsonl", [*named, {"role": "user", "content": "Gold, too."}])

    (done,) = answer(running.folder, "ingest", file, "--session", "c", "--user", user)

    assert done["data"] == {"sessions": ["a", "b", "c"], "remembered": 9, "known": 0}
    gold = recalled(running.folder, "gold", "--user", user, "--session", "c", "--scope", "session")
    assert [item["content"] for item in gold] == ["Gold, too."]


def test_a_file_larger_than_a_request_is_remembered_whole(
    running: Running, tmp_path: Path, user: str
) -> None:
    large = [{"role": "user", "content": f"{n} " + "x" * 300_000} for n in range(4)]
    many = [{"role": "user", "content": "yes"}] * (BATCH_MESSAGES + 1)
    file = lines(tmp_path / "talk.jsonl", [*large, *many])

    done, again = (answer(running.folder, "ingest", file, "--user", user)[0] for _ in range(2))

    count = len(large) + len(many)
    assert (done["data"]["remembered"], done["data"]["known"]) == (count, 0)
    assert (again["data"]["remembered"], again["data"]["known"]) == (0, count)


def test_batches_keep_the_order_and_hold_what_a_request_carries() -> None:
    messages = [said("x" * (BATCH_BYTES // 3)), *[said("yes")] * 2_500, said("y" * BATCH_BYTES)]

    cut = list(batches(messages))

    assert [message for batch in cut for message in batch] == messages
    assert all(len(batch) <= BATCH_MESSAGES for batch in cut)
    sizes = [sum(len(msgspec.json.encode(message)) for message in batch) for batch in cut]
    assert all(size <= BATCH_BYTES for size in sizes[:-1])
    assert len(cut[-1]) == 1, "what is too large for a request goes alone"


@pytest.mark.parametrize(
    ("line", "says"),
    [
        pytest.param(b"{role: user}", "JSON", id="no JSON"),
        pytest.param(b'["user", "yes"]', "object", id="no object"),
        pytest.param(b'{"content": "yes"}', "role", id="no role"),
        pytest.param(b'{"role": "robot", "content": "yes"}', "robot", id="another role"),
        pytest.param(b'{"role": "user", "text": "yes"}', "content", id="no content"),
        pytest.param(b'{"role": "user", "timestamp": "noon"}', "timestamp", id="no time"),
        pytest.param(
            b'{"role": "user", "timestamp": "0001-01-01T00:00:00+02:00"}', "calendar", id="too old"
        ),
        pytest.param(b'{"role": "user", "content": "\xff"}', "", id="no UTF-8"),
    ],
)
def test_a_malformed_line_is_named_and_nothing_of_its_file_is_sent(
    running: Running, tmp_path: Path, user: str, line: bytes, says: str
) -> None:
    good = lines(tmp_path / "good.jsonl", TALK[:1])
    bad = tmp_path / "bad.jsonl"
    bad.write_bytes(b'{"role": "user", "content": "Never said."}\n\n' + line)

    failed = local2(running.folder, "ingest", str(bad), good, "--user", user)

    assert failed.returncode == 1
    assert failed.stderr.startswith(f"{bad}: Line 3 is not a message: ")
    assert says in failed.stderr
    assert f"{good}: 1 remembered" in failed.stdout
    found = recalled(running.folder, "never said", "--user", user, "--kind", "chat_message")
    assert "Never said." not in [item["content"] for item in found]


def test_standard_input_is_a_file_like_others(running: Running, user: str) -> None:
    done = subprocess.run(
        [*COMMAND, "ingest", "-", "--user", user],
        cwd=running.folder,
        input="\ufeff" + "\r\n".join(json.dumps(line) for line in TALK),
        capture_output=True,
        text=True,
        timeout=START_SECONDS,
        check=False,
    )

    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout == "standard input: 4 remembered, 0 known already.\n"


@pytest.mark.parametrize("command", ["ingest", "add-document"])
def test_a_file_that_cannot_be_read_is_named(
    running: Running, tmp_path: Path, command: str
) -> None:
    missing = answer(running.folder, command, "missing.txt", str(tmp_path))

    assert [one["file"] for one in missing] == ["missing.txt", str(tmp_path)]
    assert all("cannot be read" in one["error"] for one in missing)


async def test_ctrl_c_ends_an_ingestion_at_once(
    bus: Connection, nats_url: str, tmp_path: Path
) -> None:
    begun = asyncio.Event()

    async def never_answer(_: Message) -> None:
        begun.set()

    await bus.subscribe("tool.request.ingest", never_answer)
    await bus.flush()
    process = await asyncio.create_subprocess_exec(
        *COMMAND,
        "ingest",
        lines(tmp_path / "talk.jsonl", TALK),
        cwd=tmp_path,
        env={**os.environ, "LOCAL2_BUS__URL": nats_url},
        stderr=asyncio.subprocess.PIPE,
    )
    await begun.wait()
    process.send_signal(signal.SIGINT)
    _, errors = await process.communicate()

    assert process.returncode == 130
    assert b"Traceback" not in errors


def test_documents_are_kept_and_those_that_are_none_are_named(
    running: Running, tmp_path: Path
) -> None:
    guide, image = tmp_path / "guide.md", tmp_path / "image.png"
    guide.write_bytes(b"\xef\xbb\xbf" + PLANTS.encode())
    image.write_bytes(b"\x89PNG\r\n\x1a\n\x00")
    nul, empty = tmp_path / "nul.txt", tmp_path / "empty.txt"
    nul.write_bytes(b"a\x00b")
    empty.write_text("\n")
    large = tmp_path / "large.txt"
    large.write_text("x" * 900_001)

    words = [str(file) for file in (image, nul, empty, large, guide)]
    failed = local2(running.folder, "add-document", *words)

    assert failed.returncode == 1
    for file, problem in {
        image: "It is not text in UTF-8.",
        nul: "It is not text in UTF-8.",
        empty: "It is empty.",
        large: "The document has more than 900,000 bytes",
    }.items():
        assert f"{file}: {problem}" in failed.stderr
    assert failed.stdout.startswith(f"{guide}: Document kept in 1 chunk: ")
    found = recalled(running.folder, "ficus", "--kind", "document_chunk")
    (chunk,) = [item for item in found if item["content"] == PLANTS.strip()]
    assert chunk["label"] == "guide › Plants"  # noqa: RUF001 - as labels have it
    assert chunk["source_ref"] == f"{guide}#1"


def test_a_document_added_again_is_unchanged_or_replaced(running: Running, tmp_path: Path) -> None:
    file = tmp_path / "guide.md"
    words = ("add-document", str(file), "--title", "Green guide", "--source", "guide")
    file.write_text("The palm is watered on Mondays.")
    (first,) = answer(running.folder, *words)
    (again,) = answer(running.folder, *words)
    file.write_text("The palm is watered on Fridays.")
    (changed,) = answer(running.folder, *words)

    assert first["data"]["source"] == "guide"
    assert [done["data"]["added"] for done in (first, again, changed)] == [1, 0, 0]
    assert again["data"]["unchanged"] == 1
    assert changed["data"]["replaced"] == 1
    found = recalled(running.folder, "palm", "--kind", "document_chunk")
    palms = [(item["label"], item["content"]) for item in found if "palm" in item["content"]]
    assert palms == [("Green guide", "The palm is watered on Fridays.")]


@pytest.mark.parametrize("option", ["--title", "--source"])
def test_several_documents_do_not_share_a_title_or_source(running: Running, option: str) -> None:
    failed = local2(running.folder, "add-document", "a.md", "b.md", option, "guide")

    assert failed.returncode == 1
    assert "those of one document" in failed.stderr


def test_recall_lists_what_was_found(running: Running, tmp_path: Path, user: str) -> None:
    long = {**TALK[0], "name": "Ann", "content": "The osmium \x1b[31m\nring " + "glows " * 200}
    local2(
        running.folder,
        "ingest",
        lines(tmp_path / "talk.jsonl", [TALK[1], long]),
        *("--session", "talk", "--user", user),
    )

    words = ("--user", user, "--kind", "chat_message")
    listed = local2(running.folder, "recall", "osmium", *words).stdout

    numbers = [line.split()[0] for line in listed.splitlines() if not line.startswith("   ")]
    assert numbers[:2] == ["1.", "2."]
    assert "  2023-05-08 13:57  chat_message  session talk\n   Osmium.\n" in listed
    assert "  2023-05-08 13:56  chat_message  Ann  session talk\n   The osmium [31m ring " in listed
    glowing = [line for line in listed.splitlines() if "glows" in line]
    assert len(glowing) == SHOWN_LINES
    assert glowing[-1].endswith("glows …")
    assert max(map(len, glowing)) <= 80


def test_recall_passes_on_what_its_options_say(running: Running, tmp_path: Path, user: str) -> None:
    file = lines(tmp_path / "talk.jsonl", TALK)
    local2(running.folder, "ingest", file, "--session", "talk", "--user", user)

    def found(*words: str) -> list[str]:
        return [item["content"] for item in recalled(running.folder, "densest osmium yes", *words)]

    own = ("--user", user, "--kind", "chat_message")
    on_the_8th = {TALK[0]["content"], TALK[1]["content"]}
    assert set(found(*own)) == {*on_the_8th, "yes"}
    assert set(found(*own, "--until", "2023-05-08")) == on_the_8th
    assert found(*own, "--since", "2023-05-09") == ["yes"]
    assert found(*own, "--since", "2023-05-08T13:57", "--until", "2023-05-08T16:57+03:00") == [
        "Osmium."
    ]
    assert found(*own, "--scope", "session", "--session", "other") == []
    assert found("--user", user, "--kind", "fact", "--kind", "tool_output") == []
    assert found("--user", f"not {user}", "--kind", "chat_message") == []


@pytest.mark.parametrize(
    ("words", "exit_code", "says"),
    [
        pytest.param(["--since", "noon"], 1, "since: 'noon' is no date", id="since"),
        pytest.param(["--until", "2023-02-30"], 1, "until: '2023-02-30'", id="until"),
        pytest.param(["--kind", "episode"], 1, "episode", id="kind"),
        pytest.param(["--top-k", "21"], 1, "top_k", id="top-k"),
        pytest.param(["--scope", "world"], 2, "world", id="scope"),
        pytest.param(["--scope", "user"], 1, "user", id="a scope of nobody"),
    ],
)
def test_wrong_options_are_named(
    running: Running, words: list[str], exit_code: int, says: str
) -> None:
    failed = local2(running.folder, "recall", "osmium", *words)

    assert failed.returncode == exit_code
    assert says in failed.stderr


def test_an_error_of_the_tool_is_json_where_json_is_asked_for(running: Running) -> None:
    assert answer(running.folder, "recall", " ")["error"]["code"] == "invalid_arguments"
    assert answer(running.folder, "recall", "x", "--since", "?")["error"]["code"] == (
        "invalid_arguments"
    )


def test_explain_shows_the_shares_of_the_score(running: Running, tmp_path: Path, user: str) -> None:
    file = lines(tmp_path / "talk.jsonl", TALK)
    local2(running.folder, "ingest", file, "--user", user)
    words = ("recall", "osmium", "--user", user, "--top-k", "1")

    plain = local2(running.folder, *words).stdout
    explained = local2(running.folder, *words, "--explain").stdout
    (item,) = answer(running.folder, *words, "--explain")["items"]

    names = explained.splitlines()[2].split()
    assert names == [
        *(name for name, share in item["explanation"]["shares"].items() if share),
        "weight",
    ]
    assert "words" in names
    assert "weight" not in plain


def test_history_shows_which_version_is_active(running: Running, user: str) -> None:
    for value in ("Vim", "Emacs"):
        words = ("topic=user.editor", f"content={value}")
        local2(running.folder, "call", "save_topic", *words, "--user", user)

    by_topic = local2(running.folder, "history", "user.editor", "--user", user).stdout
    versions = answer(running.folder, "history", "user.editor", "--user", user)["versions"]
    by_id = answer(running.folder, "history", versions[1]["id"], "--user", user)["versions"]

    assert [line.split()[0] for line in by_topic.splitlines()] == [
        "active",
        "Emacs",
        "replaced",
        "Vim",
    ]
    assert [version["content"] for version in versions] == ["Emacs", "Vim"]
    assert by_id == versions
    other = local2(running.folder, "history", "user.editor", "--user", f"not {user}")
    assert (other.returncode, other.stdout) == (0, "No memories found.\n")


def test_without_a_stack_nothing_is_read_or_written(tmp_path: Path) -> None:
    file = lines(tmp_path / "talk.jsonl", TALK)
    for words in (["recall", "x"], ["history", "user.x"], ["ingest", file], ["add-document", file]):
        failed = local2(tmp_path, *words)
        assert failed.returncode == 1
        assert "No stack is running" in failed.stderr


def shown(capsys: pytest.CaptureFixture[str], **fields: Any) -> str:
    """What is printed of a recall that found one item."""
    item = RecalledItem(
        id="1",
        source_kind="fact",
        source_ref=None,
        content="Osmium is the densest metal.",
        event_time=datetime(2023, 5, 8, 13, 57, tzinfo=UTC),
        score=0.5,
        topic="project.metal",
        memory_type="fact",
        label=None,
        session_id=None,
        explanation=fields.pop("explanation", None),
    )
    usual = {"degraded": False, "rerank_used": False, "reason": None, "answer": None}
    _show(Output(), RecalledItems(**{"items": [item], "total": 1, **usual, **fields}))
    return capsys.readouterr().out


def test_what_a_search_lacked_is_said_in_words(capsys: pytest.CaptureFixture[str]) -> None:
    assert shown(capsys) == (
        "1. 0.50  2023-05-08 13:57  fact  project.metal\n   Osmium is the densest metal.\n"
    )
    degraded = shown(capsys, degraded=True, reason="No worker [yet].")
    assert degraded.endswith("Some were searched by their words only: No worker [yet].\n")
    assert shown(capsys, rerank_used=True).endswith("A reranker put them in this order.\n")
    assert shown(capsys, items=[]) == "No memories found.\n"


def test_an_answer_names_what_it_rests_on(capsys: pytest.CaptureFixture[str]) -> None:
    answered = Answer(text="It is osmium.", ids=("1",), by_model=True)
    nothing = Answer(by_model=True)
    extract = Answer(text="Osmium is the densest metal.", ids=("1",))

    assert shown(capsys, answer=answered).startswith("It is osmium.\nIt rests on 1.\n1. 0.50")
    assert shown(capsys, answer=nothing).startswith("What was found does not answer the question.")
    assert shown(capsys, answer=extract).startswith("No model made an answer of what was found.\n1")
    assert shown(capsys, answer=Answer(), items=[]) == "No memories found.\n"


def test_shares_of_nothing_are_left_out(capsys: pytest.CaptureFixture[str]) -> None:
    shares = Shares(meaning=0.7, machine=-0.2)

    explained = shown(capsys, explanation=Explanation(shares=shares, weight=0.8))

    assert [line.split() for line in explained.splitlines()[2:]] == [
        ["meaning", "machine", "weight"],
        ["+0.70", "-0.20", "0.8"],
    ]
