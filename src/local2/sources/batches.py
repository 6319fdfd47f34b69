"""Requests of the tool `ingest`: how large they and their messages may be."""

from collections.abc import Iterator, Sequence

import msgspec

from local2.protocol.conversation import ConversationMessage
from local2.protocol.payloads import split_into_parts

BATCH_BYTES = 500_000
"""Maximum bytes of the messages in one request; the bus carries 1 MB, including the envelope."""
MAX_MESSAGE_BYTES = 900_000
"""Maximum bytes of one message as JSON, so that a request with only this message fits into the
bus's 1 MB."""
BATCH_MESSAGES = 1_000
"""Maximum messages in one request. They are written in one transaction, for which other saves
wait."""


def size_of(message: ConversationMessage) -> int:
    """The bytes of a message as JSON."""
    return len(msgspec.json.encode(message))


def batches(messages: Sequence[ConversationMessage]) -> Iterator[list[ConversationMessage]]:
    """Split the messages, in order, into batches as large as the limits allow."""
    return split_into_parts(messages, size_of, max_bytes=BATCH_BYTES, max_items=BATCH_MESSAGES)
