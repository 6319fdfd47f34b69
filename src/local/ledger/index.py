"""Records on their way into the vector index, and the text that a vector is made of."""

import msgspec

from local.protocol.memories import Kind

SAID = 400
"""Characters of what was said that its vector is made of: more of it blurs the vector."""
WRITTEN = 1_000
"""Of everything else."""
FILLED = 300
"""What was said in less is filled up to this with the end of the message before."""
CONVERSATION = frozenset({"chat_message", "tool_output"})


class Waiting(msgspec.Struct, frozen=True, kw_only=True):
    """A record that waits for its place in the index; `vector`, instead of `text`, where known."""

    row: int
    id: str
    text: str
    vector: bytes | None


def indexed_text(kind: Kind, text: str, before: str | None) -> str:
    """What is embedded: its beginning, under speaker or key, and then what was said before it.

    A short message often answers the one before. Its own words must come first.
    """
    if kind not in CONVERSATION:
        return text[:WRITTEN]
    room = FILLED - len(text)
    if before is None or room <= 0:
        return text[:SAID]
    return f"{text}\n{before[-room:]}"


def labelled(label: str | None, text: str) -> str:
    """A text under who said it, or under its key."""
    return f"{label}: {text}" if label else text
