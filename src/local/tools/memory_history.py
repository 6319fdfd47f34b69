"""Tool `memory_history`: what a fact, an answer or a message was before."""

from typing import Annotated

import msgspec

from local.ledger.records import Record, class_of, sources_of
from local.llm.framing import inset
from local.memory.service import MemoryService
from local.protocol.memories import NOTHING_FOUND, Version, Versions
from local.protocol.tool import ToolOutput
from local.tools.base import DATA_BYTES, READS, TEXT_BYTES, Args, MemoryTool, shortened

DESCRIPTION = (
    "List every version of a fact, an answer or a message, newest first, for questions such as "
    "'What did I prefer before?'. Give the fact's topic key or the id of any version."
)
MOST = 100


class MemoryHistory(Args, frozen=True):
    topic_or_id: Annotated[str, msgspec.Meta(min_length=1, max_length=256)]


async def memory_history(memory: MemoryService, args: MemoryHistory) -> ToolOutput:
    records = await memory.facts.history(args.topic_or_id)
    versions = [_version(record) for record in records[:MOST]]
    lines = [
        f"{version.event_time.date()} {_state(version)}{inset(version.content)}"
        for version in shortened(versions, TEXT_BYTES)
    ]
    if len(records) > MOST:
        lines.append(f"({len(records) - MOST} older versions are left out.)")
    return ToolOutput(
        content="\n".join(lines) or NOTHING_FOUND,
        data=Versions(versions=shortened(versions, DATA_BYTES), total=len(records)),
    )


def _state(version: Version) -> str:
    """Why it does not hold any more, and since when."""
    if version.ended is None:
        return ""
    since = f" {version.retired_at:%Y-%m-%d}" if version.retired_at else ""
    return f"({version.ended}{since}) "


def _version(record: Record) -> Version:
    return Version(
        id=record.id,
        content=record.content,
        topic=record.topic,
        scope=record.scope,
        event_time=record.event_time,
        agent=record.agent,
        superseded_by=record.superseded_by or None,
        source_class=class_of(record),
        retired_at=record.retired_at,
        retired_why=record.retired_why,
        sources=sources_of(record),
    )


def _shown(data: Versions) -> list[str]:
    return [version.id for version in data.versions]


TOOL = MemoryTool[MemoryHistory](
    name="memory_history",
    title="Show earlier versions",
    description=DESCRIPTION,
    annotations=READS,
    args=MemoryHistory,
    function=memory_history,
    shows=_shown,
    operation="search_memory",
)
