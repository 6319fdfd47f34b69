"""Check a client's message before the SDK reads it.

The SDK takes a request whose `id` it cannot read for a notification, and answers nothing; and it
refuses a whole message for half an emoji.
"""

import json
from typing import Any

import pydantic_core
from mcp_types import INVALID_REQUEST, PARSE_ERROR, JSONRPCNotification, jsonrpc_message_adapter

from local2.protocol.json_text import without_half_characters


class UnreadableMessageError(Exception):
    """A message that is no JSON or no JSON-RPC, and the error reply to it."""

    def __init__(self, code: int, problem: str, request: str | int | None = None) -> None:
        super().__init__(problem)
        error = {"code": code, "message": f"The message cannot be read: {problem}."}
        self.reply = json.dumps({"jsonrpc": "2.0", "id": request, "error": error})


def readable(data: bytes) -> bytes:
    """Write a message in UTF-8, with U+FFFD in place of everything that is not a character.

    Raises:
        UnreadableMessageError: It is not JSON, or not a message of JSON-RPC 2.0.
    """
    text = data
    try:
        message: Any = pydantic_core.from_json(text, allow_inf_nan=False)
    except ValueError:
        text = without_half_characters(data).decode("utf-8", "replace").encode()
        try:
            message = pydantic_core.from_json(text, allow_inf_nan=False)
        except ValueError as error:
            raise UnreadableMessageError(PARSE_ERROR, "it is not JSON") from error
    request = message.get("id") if isinstance(message, dict) else None
    try:
        read = jsonrpc_message_adapter.validate_python(message, by_name=False)
    except ValueError as error:
        known = request if type(request) in {int, str} else None
        problem = "it is not a request of JSON-RPC 2.0"
        raise UnreadableMessageError(INVALID_REQUEST, problem, known) from error
    if isinstance(read, JSONRPCNotification) and "id" in message:
        raise UnreadableMessageError(INVALID_REQUEST, "its id is not a text or a whole number")
    return text
