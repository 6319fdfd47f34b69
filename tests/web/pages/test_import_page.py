"""Files that people bring are uploaded, imported and reported; hostile ones are refused."""

import json
import re
import zipfile
from http.client import HTTPConnection
from pathlib import Path
from urllib.parse import urlsplit
from uuid import uuid4

import httpx
import pytest
from playwright.sync_api import Browser, expect

from browsers import Reader
from http_servers import HttpServer, call
from local2.web.pages.signing_in import MAX_UPLOAD
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


@pytest.mark.parametrize(
    ("headers", "status"),
    [
        ({"Content-Length": str(MAX_UPLOAD + 1)}, 413),
        ({"Transfer-Encoding": "chunked"}, 411),
        ({"Content-Length": "0"}, 404),
    ],
)
def test_more_than_the_limit_is_refused_before_it_is_read(
    pages: HttpServer, browser: Browser, signed_in: Path, headers: dict[str, str], status: int
) -> None:
    address = urlsplit(pages.url)
    with browser.new_context(storage_state=signed_in) as context:
        (cookie,) = context.cookies()
    own = {"Origin": pages.url, "Cookie": f"{cookie['name']}={cookie['value']}"}
    connection = HTTPConnection(address.netloc, timeout=20)
    try:
        connection.putrequest("POST", "/_nicegui/client/x/upload/1")
        for name, value in {**own, **headers}.items():
            connection.putheader(name, value)
        connection.endheaders()
        assert connection.getresponse().status == status
    finally:
        connection.close()
