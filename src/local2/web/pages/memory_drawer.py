"""One memory from the side: its text, where it came from, its versions, and what can be done.

Any page opens it with `open_memory`.
"""

import asyncio
import difflib
import re
from collections.abc import Awaitable, Callable, Sequence

from nicegui import ui

from local2.protocol.browsing import BrowsedMemory
from local2.protocol.memory_tools import (
    EDIT_MEMORY,
    FORGET,
    HIDE_MEMORIES,
    MEMORY_HISTORY,
    PIN_MEMORIES,
    RELATIONS,
    RETIRE_FACT,
    UNDO,
    ListRelations,
    MemoryHistory,
    RelatedMemory,
    Version,
    Versions,
)
from local2.web.pages.frame import ask_reason, confirmed, dialog, notify, tag, text, when
from local2.web.pages.viewer import Viewer

MAX_COMPARED = 20_000
"""Maximum characters of two versions that are compared word by word, which takes their product."""
MAX_SOURCES = 20
"""Maximum number of messages shown that a memory was extracted from."""
READABLE = {
    "chat_message": "message",
    "tool_output": "tool output",
    "document_chunk": "document",
    "user_request": "request",
    "tenant": "everybody",
}
"""Words for names of the bus that are none."""

OnChange = Callable[[], Awaitable[None]]


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
    owner = known.user if known is not None else None
    seen_by = viewer if owner is None else viewer.looking_as(owner)
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
    with dialog("Memory").props("position=right full-height") as drawer:
        drawer.on("hide", drawer.delete)
        with ui.card().classes("drawer"):
            with ui.element("header").classes("drawer-head"):
                text("h2", "Memory")
                close = ui.button(icon="o_close", on_click=drawer.close)
                close.props('flat round dense aria-label="Close"')
            if shown is None:
                text("p", "There is no memory with this id, or it belongs to somebody else.")
            else:
                text("p", shown.content).classes("whole-text memory-text")
                _show_facts(shown, known)
                if known is not None:
                    _Actions(seen_by, known, shown.content, drawer, on_change).show()
                _show_sources(shown, sources)
                _show_versions(history)
                _show_relations(related.relations)
    drawer.open()


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
            whose = known.user or ""
            add("Belongs to", f"{readable(known.scope)} {whose}".strip())
            add("Session", known.session_id)
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
    if not relations:
        return
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


class _Actions:
    """What the viewer may do about a memory; each change is confirmed, and undone by its notice."""

    def __init__(
        self,
        viewer: Viewer,
        known: BrowsedMemory,
        content: str,
        drawer: ui.dialog,
        on_change: OnChange,
    ) -> None:
        self._viewer = viewer
        self._memory = viewer.memory
        self._known = known
        self._content = content
        self._drawer = drawer
        self._on_change = on_change

    def show(self) -> None:
        known = self._known
        may = self._viewer.may
        stands = known.state == "active" and known.by == "self"
        is_statement = known.kind in {"fact", "note"}
        with ui.element("div").classes("row-of"):
            if stands and is_statement and may(EDIT_MEMORY.name):
                ui.button("Edit", icon="o_edit", on_click=self._edit).props("outline")
            if stands and known.kind == "fact" and may(PIN_MEMORIES.name):
                name = "Unpin" if known.pinned else "Pin"
                ui.button(name, icon="o_push_pin", on_click=self._pin).props("outline")
            if stands and is_statement and may(RETIRE_FACT.name):
                ui.button("Retire", icon="o_archive", on_click=self._retire).props("outline")
            if stands and may(HIDE_MEMORIES.name):
                hide = ui.button("Never recall", icon="o_visibility_off", on_click=self._hide)
                hide.props("outline")
            if may(FORGET.name) or may("forget_own"):
                forget = ui.button("Forget", icon="o_delete_forever", on_click=self._forget)
                forget.props("outline color=negative")

    async def _edit(self) -> None:
        with dialog("Edit") as form, ui.card().classes("dialog wide"):
            text("h2", "Edit")
            content = ui.textarea("Text", value=self._content).props("outlined autogrow")
            reason = ui.input("Why", value="A correction.").props("outlined dense")

            def save() -> None:
                if (content.value or "").strip() and (reason.value or "").strip():
                    form.submit((content.value, reason.value))

            with ui.row().classes("dialog-actions"):
                ui.button("Cancel", on_click=form.close).props("flat")
                ui.button("Save", on_click=save)
        written = await form
        form.delete()
        if written is not None:
            edited = await self._memory.edit(self._known.id, *written)
            await self._done("Edited." if edited.was_new else "It has this text.", edited.run)

    async def _pin(self) -> None:
        unpin = bool(self._known.pinned)
        reason = "It matters no more than others." if unpin else "It matters in every session."
        pinned = await self._memory.pin([self._known.id], reason, unpin=unpin)
        await self._done("Unpinned." if unpin else "Pinned.", pinned.run)

    async def _retire(self) -> None:
        explanation = "It is not found any more, and stays in the history with your reason."
        if reason := await ask_reason("Retire this memory?", explanation, "Retire"):
            retired = await self._memory.retire([self._known.id], reason)
            await self._done("Retired.", retired.run)

    async def _hide(self) -> None:
        explanation = "It is not found, and models are not shown it. It stays in the history."
        if reason := await ask_reason("Never recall it again?", explanation, "Never recall"):
            hidden = await self._memory.hide([self._known.id], reason)
            await self._done("It is never recalled again.", hidden.run)

    async def _forget(self) -> None:
        preview = await self._memory.forget(id=self._known.id, dry_run=True)
        erased = ", ".join(f"{count:,} {name}" for name, count in preview.erased.items() if count)
        explanation = f"This erases for good: {erased or 'nothing'}. Nothing brings it back."
        if await confirmed("Forget it for good?", explanation, "Forget", destroys=True):
            receipt = await self._memory.forget(id=self._known.id)
            rest = "" if receipt.complete else " Some traces remain: see `local2 forget`."
            await self._done(f"{receipt.total:,} erased for good.{rest}", None)

    async def _done(self, message: str, run: str | None) -> None:
        async def undo() -> None:
            await self._memory.undo(str(run))
            notify("Undone.")
            await self._on_change()

        can_undo = run is not None and self._viewer.may(UNDO.name)
        notify(message, undo=undo if can_undo else None)
        self._drawer.close()
        await self._on_change()
