"""Exports of other programs are read as conversations and facts, and what is not read is named."""

import json
import tracemalloc
import zipfile
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from local2.errors import BadRequestError, InvalidArgumentsError, Local2Error, TooLargeError
from local2.sources import objects
from local2.sources.items import Conversation, Fact, Item
from local2.sources.objects import MAX_DEPTH, MAX_OBJECT_BYTES, PIECE_BYTES
from local2.sources.opening import Format, opened
from sources_made_up import BEGAN, archive_of, chatgpt_chat, chatgpt_message, many_chats

AT = datetime.fromtimestamp(BEGAN, UTC)
LONG = b'[{"mapping": {}, "title": "' + b"x" * 2 * PIECE_BYTES + b'"}, '
"""The beginning of an export with an object that is longer than what is read at a time."""


def read(path: Path, format_: Format | None = None) -> tuple[str, list[Item], dict[str, int]]:
    """The format of a source, its items, and how much was left out for which reason."""
    with opened(path, format_) as source:
        items = list(source.items())
        assert source.bytes_read == source.total_bytes
        return source.format, items, {one.reason: one.count for one in source.left_out.groups()}


def written(file: Path, value: object) -> Path:
    file.write_text(json.dumps(value))
    return file


def test_chatgpts_current_branch_is_read_with_its_times_roles_and_tools(tmp_path: Path) -> None:
    chat = chatgpt_chat(
        "c1",
        [
            chatgpt_message("m0", "", author={"role": "system"}, weight=0.0, create_time=None),
            chatgpt_message(
                "m1",
                "",
                content={
                    "content_type": "user_editable_context",
                    "user_profile": "A gardener.",
                    "user_instructions": "Be brief.",
                },
                metadata={"is_visually_hidden_from_conversation": True},
            ),
            chatgpt_message(
                "m2",
                "",
                content={
                    "content_type": "multimodal_text",
                    "parts": [
                        {"content_type": "image_asset_pointer", "asset_pointer": "sediment://f"},
                        {"content_type": "audio_transcription", "text": "What grows here?"},
                        "Half an emoji \ud83d",
                    ],
                },
            ),
            chatgpt_message(
                "m3",
                "",
                author={"role": "assistant"},
                content={"content_type": "thoughts", "thoughts": [{"content": "Hm."}]},
            ),
            chatgpt_message(
                "m4",
                "",
                author={"role": "assistant"},
                recipient="browser",
                create_time=BEGAN + 1,
                content={"content_type": "code", "language": "unknown", "text": "search('moss')"},
            ),
            chatgpt_message(
                "m5",
                "",
                author={"role": "tool", "name": "browser"},
                create_time=None,
                content={"content_type": "tether_browsing_display", "result": "Moss grows."},
            ),
            chatgpt_message("m6", "Moss.", author={"role": "assistant"}, create_time=BEGAN + 2),
        ],
        chatgpt_message("b1", "An answer that was asked for again."),
    )
    old = chatgpt_chat("c0", [chatgpt_message("m7", "Old.")], current_node=None)
    del old["conversation_id"]
    export = {
        "export/conversations-000.json": [chat],
        "export/conversations-001.json": [old, {"mapping": 7}],
        "export/user.json": {"id": "u1"},
        "export/chat.html": "<html></html>",
    }

    format_, items, left_out = read(archive_of(tmp_path / "chatgpt.zip", export))

    assert format_ == "chatgpt"
    first, second = items
    assert isinstance(first, Conversation)
    assert isinstance(second, Conversation)
    assert (first.id, second.id) == ("chatgpt-c1", "chatgpt-c0")
    assert [(m.id, m.role, m.content, m.timestamp) for m in second.messages] == [
        ("m7", "user", "Old.", AT)
    ]
    asked, called, told, answered = first.messages
    assert (asked.role, asked.content) == ("user", "What grows here?\nHalf an emoji \ufffd")
    assert asked.fields == {"title": "Talk c1"}
    assert (called.tool_calls[0].name, called.tool_calls[0].args) == (
        "browser",
        {"input": "search('moss')"},
    )
    assert (told.role, told.name, told.content) == ("tool", "browser", "Moss grows.")
    assert told.tool_call_id == called.tool_calls[0].id
    assert told.timestamp == called.timestamp, "one without a time has that of the one before"
    assert (answered.role, answered.content) == ("assistant", "Moss.")
    assert left_out == {
        "messages of branches that were edited or asked for again": 1,
        "custom instructions, which ChatGPT repeats in each conversation": 1,
        "messages that ChatGPT does not show": 1,
        "what the model thought before it answered": 1,
        "images, sound and files": 1,
        "of another form than expected": 1,
        "files of the export without conversations or facts": 2,
    }


def claude_message(uuid: str, sender: str, **fields: Any) -> dict[str, Any]:
    return {
        "uuid": uuid,
        "text": "",
        "content": [],
        "sender": sender,
        "created_at": "2023-11-14T22:13:20.000000Z",
        "updated_at": "2023-11-14T22:13:20.000000Z",
        "attachments": [],
        "files": [],
        **fields,
    }


def test_claudes_blocks_attachments_and_branches_are_read(tmp_path: Path) -> None:
    root = "00000000-0000-4000-8000-000000000000"
    new = {
        "uuid": "c1",
        "name": "Moss",
        "created_at": "2023-11-14T22:13:20Z",
        "account": {"uuid": "a1"},
        "current_leaf_message_uuid": "m2",
        "chat_messages": [
            claude_message("m0", "human", text="Edited away.", parent_message_uuid=root),
            claude_message(
                "m1",
                "human",
                content=[{"type": "text", "text": "What does it say?"}],
                attachments=[{"file_name": "", "extracted_content": "Moss grows."}],
                files=[{"file_name": "moss.png"}],
                parent_message_uuid=root,
            ),
            claude_message(
                "m2",
                "assistant",
                text="```\nThis block is not supported on your current device yet.\n```",
                content=[
                    {"type": "thinking", "thinking": "Hm."},
                    {"type": "tool_use", "id": "t1", "name": "search", "input": {"q": "moss"}},
                    {
                        "type": "tool_result",
                        "tool_use_id": "t1",
                        "content": [{"type": "text", "text": "Found."}],
                    },
                    {"type": "text", "text": "That moss grows."},
                    {"type": "token_budget"},
                ],
                parent_message_uuid="m1",
            ),
        ],
    }
    old = {"uuid": "c0", "name": "", "chat_messages": [{"uuid": "m3", "sender": "human", "text": "Old.", "created_at": "2023-11-14T22:13:20Z"}]}  # fmt: skip # noqa: E501
    export = {
        "conversations.json": [new, old, {"uuid": "c2", "name": "", "chat_messages": []}],
        "users.json": [{"uuid": "a1"}],
        "memories.json": [{"conversations_memory": "Likes moss."}],
    }

    format_, items, left_out = read(archive_of(tmp_path / "claude.zip", export))

    assert format_ == "claude"
    first, second = items
    assert isinstance(first, Conversation)
    assert isinstance(second, Conversation)
    attached, asked, answered = first.messages
    assert (attached.role, attached.content) == ("tool", "Moss grows."), "not the user's own words"
    assert (asked.role, asked.content, asked.timestamp) == ("user", "What does it say?", AT)
    assert answered.content == "That moss grows."
    (call,) = answered.tool_calls
    assert (call.name, call.args, call.content) == ("search", {"q": "moss"}, "Found.")
    assert [(m.role, m.content) for m in second.messages] == [("user", "Old.")]
    assert left_out == {
        "messages of branches that were edited or asked for again": 1,
        "what the model thought before it answered": 1,
        "parts of other types": 1,
        "images, sound and files": 1,
        "conversations without messages": 1,
        "files of the export without conversations or facts": 2,
    }


def test_mem0s_memories_are_facts_of_those_whom_they_name(tmp_path: Path) -> None:
    known = {"hash": "h", "created_at": "2023-01-01T00:00:00-07:00", "metadata": None}
    memories = [
        {"id": "1", "memory": "Grows moss.", "user_id": "ada", "categories": ["garden"], **known},
        {"id": "2", "memory": "Answers briefly.", "agent_id": "helper", **known,
         "updated_at": "2023-11-14T22:13:20+00:00"},
        {"id": "3", "memory": " ", "user_id": "ada", **known},
        {"id": "4", "memory": "Over.", "expiration_date": "2023-02-01", **known},
        {"id": "5", "memory": "When?"},
        {"memory": "Without an id."},
    ]  # fmt: skip
    backup = {
        "user": {"id": "0", "user_id": "ada"},
        "memories": [
            {"id": "6", "user_id": "0", "content": "Kept.", "state": "active", **known},
            {"id": "7", "user_id": "0", "content": "Gone.", "state": "deleted", **known},
        ],
    }

    found = read(written(tmp_path / "all.json", {"results": memories, "relations": []}))
    lines = tmp_path / "all.jsonl"
    lines.write_text("\n".join(map(json.dumps, memories)))
    by_lines = read(lines)
    openmemory = read(archive_of(tmp_path / "backup.zip", {"memories.json": backup}))

    assert found[0] == by_lines[0] == openmemory[0] == "mem0"
    assert found[1] == by_lines[1]
    ada, helper = found[1]
    assert isinstance(ada, Fact)
    assert isinstance(helper, Fact)
    assert (ada.id, ada.content, ada.user) == ("mem0-1", "Grows moss.", "ada")
    assert ada.metadata == {"categories": ["garden"]}
    assert (helper.agent, helper.event_time) == ("helper", AT)
    assert sum(found[2].values()) == 4
    (kept,) = openmemory[1]
    assert isinstance(kept, Fact)
    assert (kept.content, kept.user) == ("Kept.", None)


def test_hindsights_facts_are_read_from_its_archive_and_its_list(tmp_path: Path) -> None:
    fact = {"text": "Ada grows moss.", "fact_type": "world", "mentioned_at": "2023-11-14T22:13:20Z"}
    archive = {
        "manifest.json": {"schema_version": 1, "source_bank_id": "b", "archive_type": "bank"},
        "documents/000000.json": {
            "id": "d1", "original_text": "We talked.", "retain_params": None, "tags": [],
            "chunks": [], "facts": [fact, {**fact, "source_id": "f2", "fact_type": "experience"}],
        },
        "observations.json": [{"text": "Grows things.", "proof_count": 2}],
    }  # fmt: skip
    listed = {
        "items": [
            {"id": "f3", "date": "2023-11-14T22:13:20Z", "text": "A", "fact_type": "world"},
            {"id": "f4", "text": "B", "fact_type": "observation"},
            {"id": "f5", "text": "C", "fact_type": "world", "state": "invalidated"},
        ],
        "total": 3,
    }

    format_, items, left_out = read(archive_of(tmp_path / "bank.zip", archive))
    _, in_list, left_out_of_list = read(written(tmp_path / "list.json", listed))

    assert format_ == "hindsight"
    first, second = items
    assert isinstance(first, Fact)
    assert isinstance(second, Fact)
    assert (first.id, first.content, first.event_time) == (
        "hindsight-d1/0", "Ada grows moss.", AT,
    )  # fmt: skip
    assert (second.id, second.memory_type) == ("hindsight-f2", "event")
    assert left_out == {
        "texts that facts were extracted from": 1,
        "files of the export without conversations or facts": 1,
    }
    assert [item.id for item in in_list if isinstance(item, Fact)] == ["hindsight-f3"]
    assert sum(left_out_of_list.values()) == 2


def test_messages_are_read_by_lines_and_sessions(tmp_path: Path) -> None:
    file = tmp_path / "talk.jsonl"
    file.write_bytes(
        b'\xef\xbb\xbf{"role": "user", "content": "yes", "session_id": "s1"}\n'
        b'{"role": "user", "content": "cut \\ud83d", "session_id": 2}\n'
        b"{broken\n"
        b'["no object"]\n'
        b'{"role": "user", "body": "no content"}\n'
        b'{"role": "user", "content": "' + b"x" * MAX_OBJECT_BYTES + b'"}\n'
        b'{"role": "user", "content": "yes", "session_id": "s1"}'
    )

    format_, items, left_out = read(file)

    assert format_ == "messages"
    first, second = items
    assert isinstance(first, Conversation)
    assert isinstance(second, Conversation)
    assert [(m.content, m.occurrence) for m in first.messages] == [("yes", 1), ("yes", 2)]
    assert (second.id, second.messages[0].content) == ("2", "cut \ufffd")
    assert set(left_out.values()) == {1}
    assert len(left_out) == 4


@pytest.mark.parametrize("is_archive", [False, True])
def test_an_export_of_local2_among_documents_is_left_out_by_name(
    tmp_path: Path, is_archive: bool
) -> None:
    header = {"type": "header", "exported_at": "2026-11-29T00:00:00Z"}
    if is_archive:
        archive_of(tmp_path / "notes.zip", {"backup.jsonl": header, "gate.md": "It is green."})
    else:
        written(tmp_path / "backup.jsonl", header)
        (tmp_path / "gate.md").write_text("It is green.")

    format_, items, left_out = read(tmp_path / "notes.zip" if is_archive else tmp_path)

    assert (format_, len(items)) == ("documents", 1)
    assert left_out == {"exports of local2; import each of them by itself": 1}


@pytest.mark.parametrize("by_lines", [True, False])
def test_a_line_far_over_the_limit_does_not_fill_the_memory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, *, by_lines: bool
) -> None:
    monkeypatch.setattr(objects, "MAX_OBJECT_BYTES", 2_000_000)
    file = tmp_path / "huge.json"
    with file.open("wb") as opened_file:
        opened_file.write(b"" if by_lines else b"[")
        opened_file.write(b'{"role": "user", "content": "')
        for _ in range(100):
            opened_file.write(b"x" * 1_000_000)
        opened_file.write(b'"}' if by_lines else b'"}]')
    tracemalloc.start()
    try:
        if by_lines:
            _, items, left_out = read(file)
            assert (items, sum(left_out.values())) == ([], 1)
        else:
            with pytest.raises(TooLargeError, match="after object 0, one has more than"):
                read(file)
        assert tracemalloc.get_traced_memory()[1] < 6 * objects.MAX_OBJECT_BYTES
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize("cut", range(14))
def test_characters_that_are_cut_by_the_reading_are_whole(tmp_path: Path, cut: int) -> None:
    """The pieces in which a file is read end anywhere, also inside escapes."""
    text = "x" * (PIECE_BYTES - 40 - cut) + "\\" * 3 + "😀é\ud83d" * 3
    file = written(tmp_path / "talk.json", [{"role": "user", "content": text}])

    _, (item,), _ = read(file)

    assert isinstance(item, Conversation)
    assert item.messages[0].content == text.replace("\ud83d", "\ufffd")


@pytest.mark.parametrize(
    ("content", "problem"),
    [
        (b'[{"mapping": {}, "id": "c1"}, {"mapping": ', "broken: after object 1"),
        (
            b'[{"mapping": {}}, {"title": "\xff"}]',
            "after object 1, it is not JSON: lexical error: invalid bytes in UTF8 string. Get",
        ),
        (LONG + b"[" * (MAX_DEPTH + 1), "after object 0, one is nested more than"),
        (b"[" * 1_000_000, "has no format that is known"),
        (b"", "is empty"),
        (b"PK\x03\x04 no archive", "has no format that is known"),
    ],
    ids=lambda value: str(value)[:30],
)
def test_a_broken_file_is_refused_by_name(tmp_path: Path, content: bytes, problem: str) -> None:
    (tmp_path / "broken.json").write_bytes(content)

    with pytest.raises(Local2Error, match=rf"broken\.json.*{problem}"):
        read(tmp_path / "broken.json")


@pytest.mark.parametrize("is_archive", [True, False], ids=["archive", "folder"])
def test_files_after_a_broken_one_are_read(tmp_path: Path, is_archive: bool) -> None:
    first, second, third = many_chats(3)
    cut = json.dumps([second, {"mapping": {}}])[:-2]
    chats = {"0.json": [first], "1.json": cut.encode(), "2.json": [third]}
    named = {f"conversations-{name}": value for name, value in chats.items()}
    archive = archive_of(tmp_path / "chats.zip", named)
    if not is_archive:
        with zipfile.ZipFile(archive) as opened_archive:
            opened_archive.extractall(tmp_path / "chats")

    with opened(archive if is_archive else tmp_path / "chats") as source:
        items = list(source.items())
        (broken,) = source.left_out.groups()

    assert len(items) == 3, "the second is before the place where its file breaks"
    assert broken.refused
    assert broken.names[0].startswith("conversations-1.json is broken: after object 1, ")
    assert source.bytes_read == source.total_bytes


@pytest.mark.parametrize("name", ["/conversations.json", "../conversations.json"])
def test_a_path_that_leads_out_of_an_archive_counts_as_refused(tmp_path: Path, name: str) -> None:
    with opened(archive_of(tmp_path / "chats.zip", {name: many_chats(1)})) as source:
        assert list(source.items()) == []
        (led_out,) = source.left_out.groups()

    assert (led_out.names, led_out.refused) == ([name], True)


def test_a_damaged_archive_says_so(tmp_path: Path) -> None:
    chats = {"conversations.json": [chatgpt_chat("c1", [chatgpt_message("m1", "Fine.")])]}
    damaged = bytearray(archive_of(tmp_path / "chats.zip", chats).read_bytes())
    damaged[100:140] = b"\0" * 40
    (tmp_path / "damaged.zip").write_bytes(damaged)
    with pytest.raises(BadRequestError, match="cannot be read"):
        read(tmp_path / "damaged.zip")


def test_an_archive_that_was_cut_short_is_to_be_got_once_more(tmp_path: Path) -> None:
    whole = archive_of(tmp_path / "chats.zip", {"conversations.json": many_chats(2)}).read_bytes()
    (tmp_path / "cut.zip").write_bytes(whole[:200])

    with pytest.raises(BadRequestError, match="cut short: get it once more"):
        read(tmp_path / "cut.zip")


def test_what_is_nothing_that_is_known_can_be_named(tmp_path: Path) -> None:
    file = written(tmp_path / "own.json", [{"id": "c1", "chat_log": []}])

    with pytest.raises(InvalidArgumentsError, match="--as`: chatgpt, claude"):
        read(file)
    _, items, left_out = read(file, "claude")
    assert (items, left_out) == ([], {"of another form than expected": 1})
    with pytest.raises(InvalidArgumentsError, match="does not exist"):
        read(tmp_path / "missing")
