"""One memory from the side: its text, where it came from, its versions, and what can be done.

Any page opens it with `open_memory`.
"""

import asyncio
import difflib
import re
from collections.abc import Sequence

from nicegui import ui

from local2.protocol.browsing import BrowsedMemory
from local2.protocol.memory_tools import (
    MEMORY_HISTORY,
    RELATIONS,
    ListRelations,
    MemoryHistory,
    RelatedMemory,
    Version,
    Versions,
)
from local2.web.pages.frame import Viewer, drawer, exact, facts, link, tag, text, when
from local2.web.pages.memory_changes import MemoryChanges, OnChange

MAX_COMPARED = 20_000
"""Maximum characters of two versions that are compared word by word, which takes their product."""
MAX_SOURCES = 20
"""Maximum number of messages shown that a memory was extracted from."""
NO_TEXT = "(no text)"
"""What is shown of a message that only calls tools, and of what was anonymised."""
READABLE = {
    "chat_message": "message",
    "tool_output": "tool output",
    "output_part": "part of a tool output",
    "document_chunk": "document",
    "user_request": "request",
    "tenant": "everybody",
    "superseded": "replaced",
    "importance": "weighed anew",
    "stated": "a person's words",
    "answered": "an assistant's answer",
    "observed": "a tool's output",
    "asserted": "stored by an agent on purpose",
}
"""Words for names of the bus that are none."""


def readable(name: str) -> str:
    """A name of the bus as people say it."""
    return READABLE.get(name, name.replace("_", " "))


async def open_memory(
    viewer: Viewer, id_: str, on_change: OnChange, known: BrowsedMemory | None = None
) -> None:
    """Open a memory in a drawer; `on_change` is called after it was changed.

    `known`: what browsing says of it; without that, it can only be read.

    Raises:
        Local2Error: The memory cannot be read.
    """
    if viewer.has_accounts and known is not None and known.user not in {None, viewer.caller.user}:
        _show_others(known)
        return
    seen_by = viewer.looking_as(known.user if known is not None else None)
    history, related = await asyncio.gather(
        seen_by.calls.ask(MEMORY_HISTORY, MemoryHistory(topic_or_id=id_)),
        seen_by.calls.ask(RELATIONS, ListRelations(id=id_)),
    )
    shown = next((version for version in history.versions if version.id == id_), None)
    sources = await asyncio.gather(
        *(
            seen_by.calls.ask(MEMORY_HISTORY, MemoryHistory(topic_or_id=source))
            for source in (shown.sources[:MAX_SOURCES] if shown else ())
        )
    )

    with drawer("Memory") as opened:
        if shown is None:
            text("p", "There is no memory with this id, or it belongs to somebody else.")
            return

        async def changed() -> None:
            opened.close()
            await on_change()

        text("p", shown.content or NO_TEXT).classes("whole-text memory-text")
        _show_facts(shown, known)
        if known is not None:
            with ui.element("div").classes("row-of"):
                MemoryChanges(viewer, [known], changed, shown.content).show()
        _show_sources(shown, sources)
        _show_versions(history)
        if related.relations:
            _show_relations(related.relations)
            user = seen_by.caller.user or ""
            link("Show them in the graph", "/graph", id=id_, user=user)


def _show_others(known: BrowsedMemory) -> None:
    """Show what admins may see of another user's memory: what the table has of it."""
    with drawer("Memory"):
        content = text("p", (known.content or NO_TEXT) + "…" * known.cut)
        content.classes("whole-text memory-text")
        entries = {
            "When": exact(known.event_time),
            "Stored by": known.agent or "nobody named",
            "Kind": readable(known.memory_type or known.kind),
            "Belongs to": known.user or "",
            "Id": known.id,
        }
        facts(entries)
        alone = f"Only {known.user} sees its versions and relations, and can change it."
        text("p", alone).classes("quiet")


def _show_facts(shown: Version, known: BrowsedMemory | None) -> None:
    with ui.element("dl").classes("facts"):

        def add(name: str, value: str | None) -> None:
            if value:
                text("dt", name)
                text("dd", value)

        text("dt", "When")
        with ui.element("dd"):
            when(shown.event_time)
        add("Key", shown.topic)
        add("Stored by", shown.agent)
        if known is not None:
            add("Kind", readable(known.memory_type or known.kind))
            add("Belongs to", known.user or readable(known.scope))
            if known.session_id:
                text("dt", "Session")
                with ui.element("dd"):
                    session = known.session_id
                    link(session, "/sessions", id=session, user=known.user or "")
            add("Source", readable(known.source_class))
            add("Importance", f"{known.importance:.2f}, {known.durability}")
            if known.recalled_at is not None:
                text("dt", "Recalled")
                with ui.element("dd").classes("row-of"):
                    text("span", f"{known.recalls:,} times, last")
                    when(known.recalled_at)
        if shown.retired_at is not None and shown.ended is not None:
            text("dt", readable(shown.ended).capitalize())
            with ui.element("dd").classes("row-of"):
                when(shown.retired_at)
                if shown.reason:
                    text("span", shown.reason)
        text("dt", "Id")
        text("dd", shown.id).classes("mono")


def _show_sources(shown: Version, sources: Sequence[Versions]) -> None:
    if not sources:
        return
    text("h3", "Where it comes from")
    for id_, source in zip(shown.sources, sources, strict=False):
        message = next((version for version in source.versions if version.id == id_), None)
        with ui.element("blockquote"):
            if message is None:
                text("p", "The message is gone, or belongs to somebody else.").classes("quiet")
                continue
            text("p", message.content).classes("whole-text")
            with ui.element("div").classes("row-of quiet"):
                when(message.event_time)
                text("span", message.agent or "")
                text("span", id_).classes("mono")
    if len(shown.sources) > MAX_SOURCES:
        text("p", f"… and {len(shown.sources) - MAX_SOURCES} more.").classes("quiet")


def _show_versions(history: Versions) -> None:
    if len(history.versions) < 2:  # noqa: PLR2004 - there is nothing to compare
        return
    text("h3", f"Versions ({history.total})")
    with ui.element("ol").classes("versions"):
        for number, version in enumerate(history.versions):
            before = history.versions[number + 1 :][:1]
            with ui.element("li"):
                with ui.element("div").classes("row-of quiet"):
                    when(version.event_time)
                    tag(readable(version.ended) if version.ended else "current")
                    if version.reason:
                        text("span", version.reason)
                with ui.element("p").classes("whole-text"):
                    if before:
                        _show_difference(before[0].content, version.content)
                    else:
                        text("span", version.content)


def _show_difference(before: str, after: str) -> None:
    """Show a text with the words marked that are new in it, and those that are no longer."""
    if len(before) + len(after) > MAX_COMPARED:
        text("span", after)
        return
    old, new = re.split(r"(\s+)", before), re.split(r"(\s+)", after)
    matcher = difflib.SequenceMatcher(None, old, new, autojunk=False)
    for operation, old_start, old_end, new_start, new_end in matcher.get_opcodes():
        removed, added = "".join(old[old_start:old_end]), "".join(new[new_start:new_end])
        if operation == "equal":
            text("span", added)
            continue
        if removed:
            text("del", removed)
        if added:
            text("ins", added)


def _show_relations(relations: Sequence[RelatedMemory]) -> None:
    text("h3", "Relations")
    with ui.element("ul").classes("relations"):
        for related in relations:
            with ui.element("li"):
                with ui.element("div").classes("row-of quiet"):
                    tag(readable(related.type) if not related.incoming else "←")
                    if related.incoming:
                        text("span", f"this one is the target: {readable(related.type)}")
                    when(related.event_time)
                    if not related.active:
                        tag("retired")
                text("p", related.content).classes("whole-text")
