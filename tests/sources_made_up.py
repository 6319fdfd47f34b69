"""Exports of other programs, made up: nobody's real conversations."""

import json
import zipfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

BEGAN = 1_700_000_000.0
"""When the first conversation began."""


def chatgpt_message(id_: str, text: str, **fields: Any) -> dict[str, Any]:
    """A message as in ChatGPT's `mapping`."""
    return {
        "id": id_,
        "author": {"role": "user", "name": None, "metadata": {}},
        "create_time": BEGAN,
        "update_time": None,
        "content": {"content_type": "text", "parts": [text]},
        "status": "finished_successfully",
        "end_turn": True,
        "weight": 1.0,
        "metadata": {},
        "recipient": "all",
        **fields,
    }


def chatgpt_chat(
    id_: str, messages: list[dict[str, Any]], *branches: dict[str, Any], **fields: Any
) -> dict[str, Any]:
    """A conversation of ChatGPT; the branches hang on its first message."""
    root: dict[str, Any] = {"id": f"{id_}-root", "message": None, "parent": None, "children": []}
    mapping: dict[str, Any] = {root["id"]: root}
    parent = root["id"]
    for message in messages:
        mapping[message["id"]] = {
            "id": message["id"], "message": message, "parent": parent, "children": [],
        }  # fmt: skip
        mapping[parent]["children"].append(message["id"])
        parent = message["id"]
    for message in branches:
        mapping[message["id"]] = {
            "id": message["id"], "message": message, "parent": messages[0]["id"], "children": [],
        }  # fmt: skip
    return {
        "title": f"Talk {id_}",
        "create_time": BEGAN,
        "update_time": BEGAN,
        "mapping": mapping,
        "moderation_results": [],
        "current_node": parent,
        "conversation_id": id_,
        "id": id_,
        **fields,
    }


def many_chats(number: int, messages: int = 6) -> list[dict[str, Any]]:
    """A long export of ChatGPT."""
    return [
        chatgpt_chat(
            f"c{chat}",
            [
                chatgpt_message(
                    f"c{chat}-m{number}",
                    f"Conversation {chat}, message {number}: the kettle of house {chat * number}.",
                    author={"role": "assistant" if number % 2 else "user"},
                    create_time=BEGAN + 3_600 * chat + number,
                )
                for number in range(messages)
            ],
        )
        for chat in range(number)
    ]


def archive_of(file: Path, contents: Mapping[str, object]) -> Path:
    """Write a zip archive; what is no text is written as JSON."""
    with zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in contents.items():
            archive.writestr(
                name, content if isinstance(content, str | bytes) else json.dumps(content)
            )
    return file
