"""Files that people bring are uploaded, imported and reported; hostile ones are refused."""

import json
import re
import zipfile
from pathlib import Path
from uuid import uuid4

import httpx
from playwright.sync_api import expect

from browsers import Reader
from http_servers import call
from sources_made_up import archive_of, chatgpt_chat, chatgpt_message

HOSTILE = '<img src=x onerror=alert(1)>"{{ alert(2) }}'


def upload(reader: Reader, file: Path) -> None:
    reader.open("/import")
    with reader.page.expect_file_chooser() as chooser:
        reader.page.get_by_role("button", name="Choose a file").click()
    chooser.value.set_files(file)


def test_an_export_is_uploaded_imported_and_reported(
    reader: Reader, ada: httpx.Client, tmp_path: Path
) -> None:
    chat = f"c{uuid4().hex[:8]}"
    chats = [
        chatgpt_chat(chat, [chatgpt_message(f"{chat}-1", f"The otter of {chat} swims.")]),
        {"mapping": 7},
    ]
    file = archive_of(tmp_path / "chatgpt.zip", {"conversations.json": chats, HOSTILE: "x"})

    upload(reader, file)
    status = reader.page.get_by_role("status")
    expect(status.filter(has_text="1 record stored")).to_contain_text("1 conversation, 1 message")
    reader.page.get_by_text("Left out: 1 (files of the export").click()
    expect(reader.page.get_by_text(HOSTILE)).to_be_visible()
    reader.check_accessibility()
    upload(reader, file)
    expect(status.filter(has_text="1 already known")).to_contain_text("0 records stored")

    found = call(ada, "recall", query=f"otter {chat}")["data"]["items"]
    assert found[0]["session_id"] == f"chatgpt-{chat}"


def test_what_cannot_be_imported_is_said(reader: Reader, tmp_path: Path) -> None:
    bomb = archive_of(tmp_path / "bomb.zip", {"conversations.json": b"[" + b" " * 50_000_000})
    unknown = tmp_path / "unknown.bin"
    unknown.write_bytes(b"\0" * 100)
    own = tmp_path / "own.jsonl"
    own.write_text(json.dumps({"type": "header", "local2": "1", "exported_at": ""}) + "\n")
    broken = tmp_path / "broken.zip"
    with zipfile.ZipFile(broken, "w") as archive:
        archive.writestr("conversations.json", '[{"mapping": {}, "id": "c1"}, {"mapping": ')

    for file, problem in (
        (bomb, re.compile("^bomb.zip would be")),  # not where the page has put it
        (bomb, "It looks like a zip bomb."),
        (unknown, "unknown.bin has no format that is known."),
        (own, "Import it in a terminal"),
        (broken, "it is not JSON"),
    ):
        upload(reader, file)
        expect(reader.page.get_by_text(problem)).to_be_visible()
