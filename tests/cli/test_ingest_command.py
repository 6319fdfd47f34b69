"""`local2 ingest` stores files of JSON lines in the memory of a running stack."""

import json
from pathlib import Path

import msgspec

from commands import TALK, Served, answer, lines, local2, recalled
from local2.sources.items import BATCH_BYTES, BATCH_MESSAGES, batches
from recalling import chat_message


def test_a_conversation_is_stored_once(running: Served, tmp_path: Path, user: str) -> None:
    file = lines(tmp_path / "talk.jsonl", TALK)

    first = local2(running.folder, "ingest", file, "--user", user)
    again = answer(running.folder, "ingest", file, "--user", user)

    assert (first.returncode, first.stderr) == (0, "")
    assert first.stdout == f"{file}: 4 stored, 0 already known.\n"
    (one,) = again
    assert (one["file"], one["data"]["remembered"], one["data"]["known"]) == (file, 0, 4)
    (session,) = one["data"]["sessions"]
    found = recalled(running.folder, "densest metal", "--user", user)
    assert {item["session_id"] for item in found} == {session}


def test_lines_are_stored_in_their_own_sessions(running: Served, tmp_path: Path, user: str) -> None:
    named = [{**line, "session_id": session} for line in TALK for session in ("a", "b")]
    file = lines(tmp_path / "talk.jsonl", [*named, {"role": "user", "content": "Gold, too."}])

    (done,) = answer(running.folder, "ingest", file, "--session", "c", "--user", user)

    assert (done["data"]["sessions"], done["data"]["remembered"]) == (["a", "b", "c"], 9)
    gold = recalled(running.folder, "gold", "--user", user, "--session", "c", "--scope", "session")
    assert [item["content"] for item in gold] == ["Gold, too."]


def test_a_file_larger_than_a_request_is_stored_completely(
    running: Served, tmp_path: Path, user: str
) -> None:
    large = [{"role": "user", "content": f"{n} " + "x" * 300_000} for n in range(4)]
    many = [{"role": "user", "content": "yes"}] * (BATCH_MESSAGES + 1)
    file = lines(tmp_path / "talk.jsonl", [*large, *many])

    done, again = (answer(running.folder, "ingest", file, "--user", user)[0] for _ in range(2))

    count = len(large) + len(many)
    assert (done["data"]["remembered"], done["data"]["known"]) == (count, 0)
    assert (again["data"]["remembered"], again["data"]["known"]) == (0, count)


def test_batches_keep_the_order_and_fit_into_a_request() -> None:
    messages = [
        chat_message("x" * (BATCH_BYTES // 3)),
        *[chat_message("yes")] * 2_500,
        chat_message("y" * BATCH_BYTES),
    ]

    message_batches = list(batches(messages))

    assert [message for batch in message_batches for message in batch] == messages
    assert all(len(batch) <= BATCH_MESSAGES for batch in message_batches)
    sizes = [
        sum(len(msgspec.json.encode(message)) for message in batch) for batch in message_batches
    ]
    assert all(size <= BATCH_BYTES for size in sizes[:-1])
    assert len(message_batches[-1]) == 1, "a message too large for a batch is sent alone"


def test_a_malformed_line_is_named_and_its_file_is_not_sent(
    running: Served, tmp_path: Path, user: str
) -> None:
    good = lines(tmp_path / "good.jsonl", TALK[:1])
    bad = tmp_path / "bad.jsonl"
    bad.write_text('{"role": "user", "content": "Never said."}\n\n{"role": "user", "body": "yes"}')

    failed = local2(running.folder, "ingest", str(bad), good, "--user", user)

    assert failed.returncode == 1
    assert failed.stderr.startswith(f"{bad}: Line 3 is not a message: ")
    assert "neither content" in failed.stderr
    assert failed.stderr.count(" looks like ") <= 1
    assert f"{good}: 1 stored" in failed.stdout
    found = recalled(running.folder, "never said", "--user", user, "--source-kinds", "chat_message")
    assert "Never said." not in [item["content"] for item in found]


def test_standard_input_is_ingested_like_a_file(running: Served, user: str) -> None:
    talk = "\ufeff" + "\r\n".join(json.dumps(line) for line in TALK)
    done = local2(running.folder, "ingest", "-", "--user", user, given=talk)

    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout == "standard input: 4 stored, 0 already known.\n"
