"""Resources: topics, sessions and documents under addresses of their own, read by the tools."""

from typing import Any
from urllib.parse import quote, unquote

import mcp_types as types
import msgspec

from local.errors import InvalidArgumentsError, quoted
from local.mcp.bridge import Ask

SCHEME = "memory://"
TEXT = "text/plain"


class Kind(msgspec.Struct, frozen=True, kw_only=True):
    """What stands under `memory://<folder>/…`, and which tool reads it by which argument."""

    folder: str
    title: str
    variable: str
    description: str
    tool: str
    argument: str

    def listed(self) -> types.ResourceTemplate:
        return types.ResourceTemplate(
            name=self.folder,
            title=self.title,
            uri_template=f"{SCHEME}{self.folder}/{{{self.variable}}}",
            description=self.description,
            mime_type=TEXT,
        )


KINDS = {
    kind.folder: kind
    for kind in (
        Kind(
            folder="topics",
            title="A fact under its key",
            variable="key",
            description="What stands under a key, e.g. memory://topics/user.name.",
            tool="recall_topic",
            argument="topic",
        ),
        Kind(
            folder="sessions",
            title="A session",
            variable="id",
            description="The newest messages of a session, its notes, and what matters most.",
            tool="load_session",
            argument="session_id",
        ),
        Kind(
            folder="documents",
            title="A document",
            variable="source",
            description="A document by its source, percent-encoded.",
            tool="read_document",
            argument="source",
        ),
    )
}


def templates() -> list[types.ResourceTemplate]:
    return [kind.listed() for kind in KINDS.values()]


async def listed(ask: Ask) -> list[types.Resource]:
    """The topics that matter most: one call finds them; everything else is read by its address."""
    result = await ask("top_memories", {})
    memories: list[dict[str, Any]] = (result.data or {}).get("memories", [])
    return [
        types.Resource(
            name=memory["topic"],
            uri=f"{SCHEME}topics/{quote(memory['topic'], safe='')}",
            mime_type=TEXT,
        )
        for memory in memories
        if memory.get("topic")
    ]


async def read(uri: str, ask: Ask) -> types.ReadResourceResult:
    """What stands under an address.

    Raises:
        InvalidArgumentsError: It is no address of a memory.
        Local2Error: Its tool failed.
    """
    folder, _, name = uri.removeprefix(SCHEME).partition("/")
    kind = KINDS.get(folder) if uri.startswith(SCHEME) else None
    if kind is None or not name:
        raise InvalidArgumentsError(
            f"{quoted(uri)} is no address of a memory.",
            remedy=f"One of: {', '.join(each.uri_template for each in templates())}.",
        )
    result = await ask(kind.tool, {kind.argument: unquote(name)})
    text = types.TextResourceContents(uri=uri, mime_type=TEXT, text=result.content)
    return types.ReadResourceResult(contents=[text])
