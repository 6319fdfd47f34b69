"""What can be done about one memory or many: each is asked about, and undone by its notice."""

from collections.abc import Awaitable, Callable, Sequence
from functools import partial

from nicegui import ui

from local2.protocol.browsing import BrowsedMemory
from local2.protocol.memory_tools import (
    EDIT_MEMORY,
    FORGET,
    HIDE_MEMORIES,
    PIN_MEMORIES,
    RETIRE_FACT,
    EditedMemory,
    HiddenMemories,
    PinnedMemories,
    RetiredFacts,
)
from local2.web.pages.frame import (
    Viewer,
    add_actions,
    ask_reason,
    confirmed,
    dialog,
    notify,
    notify_of_run,
    text,
)

STATEMENTS = {"fact", "note"}
"""The kinds that can be edited and retired."""

OnChange = Callable[[], Awaitable[None]]
Changed = EditedMemory | PinnedMemories | RetiredFacts | HiddenMemories


class MemoryChanges:
    """Buttons for what the viewer may do about these memories.

    `content`: the whole text of the only one, without which it cannot be edited. `on_change` is
    called after each change.
    """

    def __init__(
        self,
        viewer: Viewer,
        memories: Sequence[BrowsedMemory],
        on_change: OnChange,
        content: str | None = None,
    ) -> None:
        self._viewer = viewer
        self._memories = memories
        self._on_change = on_change
        self._content = content
        self._ids = [memory.id for memory in memories]
        self._are_pinned = all(memory.pinned for memory in memories)
        number = len(memories)
        self._these = "this memory" if number == 1 else f"these {number} memories"

    def show(self) -> None:
        """Add the buttons for what is possible for all of the memories."""
        may = self._viewer.may
        stand = all(memory.state == "active" and memory.by == "self" for memory in self._memories)
        kinds = {memory.kind for memory in self._memories}
        if stand and kinds <= STATEMENTS and self._content is not None and may(EDIT_MEMORY.name):
            ui.button("Edit", icon="o_edit", on_click=self._edit).props("outline")
        if stand and kinds == {"fact"} and may(PIN_MEMORIES.name):
            name = "Unpin" if self._are_pinned else "Pin"
            ui.button(name, icon="o_push_pin", on_click=self._pin).props("outline")
        if stand and kinds <= STATEMENTS and may(RETIRE_FACT.name):
            ui.button("Retire", icon="o_archive", on_click=self._retire).props("outline")
        if stand and may(HIDE_MEMORIES.name):
            hide = ui.button("Never recall", icon="o_visibility_off", on_click=self._hide)
            hide.props("outline")
        # Without accounts, it is asked for as its user.
        is_own = not self._viewer.has_accounts or self._memories[0].by == "self"
        if len(self._memories) == 1 and is_own and (may(FORGET.name) or may("forget_own")):
            forget = ui.button("Forget", icon="o_delete_forever", on_click=self._forget)
            forget.props("outline color=negative")

    async def _edit(self) -> None:
        with dialog("Edit") as form, ui.card().classes("dialog wide"):
            text("h2", "Edit")
            content = ui.textarea("Text", value=self._content).props("outlined autogrow autofocus")
            reason = ui.input("Why", value="A correction.").props("outlined dense")

            async def save() -> EditedMemory | None:
                written, why = content.value or "", reason.value or ""
                if not written.strip() or not why.strip():
                    return None
                return await self._viewer.memory.edit(self._ids[0], written, why)

            add_actions(form, "Save", save)
        await self._tell(await form, "Edited.")

    async def _pin(self) -> None:
        unpin = self._are_pinned
        reason = "It matters no more than others." if unpin else "It matters in every session."
        pinned = await self._viewer.memory.pin(self._ids, reason, unpin=unpin)
        await self._tell(pinned, "Unpinned." if unpin else "Pinned.")

    async def _retire(self) -> None:
        explanation = "It is not found any more, and stays in the history with your reason."
        retire = partial(self._viewer.memory.retire, self._ids)
        retired = await ask_reason(f"Retire {self._these}?", explanation, "Retire", retire)
        await self._tell(retired, "Retired.")

    async def _hide(self) -> None:
        explanation = "It is not found, and models are not shown it. It stays in the history."
        title = f"Never recall {self._these} again?"
        hide = partial(self._viewer.memory.hide, self._ids)
        hidden = await ask_reason(title, explanation, "Never recall", hide)
        await self._tell(hidden, "Never recalled again.")

    async def _tell(self, changed: Changed | None, done: str) -> None:
        """Say what was done, and show it; None: nothing was."""
        if changed is not None:
            notify_of_run(self._viewer, done, changed.run, self._on_change)
            await self._on_change()

    async def _forget(self) -> None:
        (memory,) = self._memories
        owner = self._viewer.looking_as(memory.user).memory
        preview = await owner.forget(id=memory.id, dry_run=True)
        erased = ", ".join(f"{name}: {count:,}" for name, count in preview.erased.items() if count)
        explanation = f"This erases for good ({erased or 'nothing'}). Nothing brings it back."
        if await confirmed("Forget it for good?", explanation, "Forget", destroys=True):
            receipt = await owner.forget(id=memory.id)
            rest = "" if receipt.complete else " Traces remain; `local2 forget` says where."
            notify(f"{receipt.total:,} erased for good.{rest}")
            await self._on_change()
