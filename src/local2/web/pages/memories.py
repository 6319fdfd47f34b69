"""Memories: everything remembered, the newest first, with filters that are in the address."""

from functools import partial
from typing import Any, NamedTuple, get_args

import msgspec
from nicegui import ui
from nicegui.events import GenericEventArguments, ValueChangeEventArguments

from local2.errors import InvalidArgumentsError, abridged
from local2.protocol.browsing import Browse, BrowseAll, BrowsedMemory, BrowsedPage, RecordState
from local2.protocol.memories import Kind, MemoryType, OwnerScope, SourceClass
from local2.protocol.memory_tools import HIDE_MEMORIES
from local2.protocol.msgspec_errors import split_path
from local2.web.pages.frame import (
    TEXT_CHARACTERS,
    Disclosure,
    Pager,
    Table,
    Viewer,
    empty,
    exact,
    read_on,
    said,
    text,
)
from local2.web.pages.memory_changes import MemoryChanges
from local2.web.pages.memory_drawer import NO_TEXT, open_memory, readable

PAGE_SIZE = 50
TYPING_MILLISECONDS = 300
"""Without a keystroke for this long, what was typed is looked for."""


class FilterChoice(NamedTuple):
    """A filter with known values; `name` is a field of `Browse`, and the one in the address."""

    name: str
    label: str
    values: tuple[str, ...]


CHOICES = (
    FilterChoice("kinds", "Kind", get_args(Kind)),
    FilterChoice("states", "State", get_args(RecordState)),
)
MORE_CHOICES = (
    FilterChoice("types", "Type of fact", get_args(MemoryType)),
    FilterChoice("scopes", "Belongs to", get_args(OwnerScope)),
    FilterChoice("sources", "Source", get_args(SourceClass)),
)
ENTRIES = {
    "topic": "Key begins with",
    "agent": "Stored by",
    "session_id": "Session",
    "since": "From (2026-05-01)",
    "until": "Until",
}
"""Filters with a text; the names are those of `Browse`."""
WORDS, OF = "words", "of"
LISTS = {choice.name for choice in (*CHOICES, *MORE_CHOICES)}
"""Filters whose values are lists, with commas in the address."""
FILTERS = {WORDS, OF, *ENTRIES, *LISTS}

ROWS = """
<tr tabindex="0" data-row @click="$parent.$emit('open', row.key)">
  <td class="choose" @click.stop>
    <input v-if="row.can" type="checkbox" :aria-label="'Choose: ' + row.text"
      @change="$parent.$emit('choose', row.key, $event.target.checked)" />
  </td>
  <td>
    <span class="mono quiet" v-if="row.topic">{{ row.topic }}</span>
    <span class="two-lines">{{ row.text }}</span>
  </td>
  <td>
    <span class="row-of">
      <span v-for="name in row.tags" class="tag">{{ name }}</span>
    </span>
  </td>
  <td class="quiet">{{ row.whose }}</td>
  <td class="quiet"><time :title="row.exact">{{ row.said }}</time></td>
</tr>
"""
COLUMNS = ("", "Memory", "Kind", "Belongs to", "When")


async def show(viewer: Viewer) -> None:
    await MemoriesPage(viewer).show()


class MemoriesPage:
    """One viewer's table. A page of it is read at a time, so its size does not matter."""

    def __init__(self, viewer: Viewer) -> None:
        self._viewer = viewer
        self._sees_all = viewer.may("browse_all")
        self._filters = {name: value for name, value in viewer.query.items() if name in FILTERS}
        self._pager = Pager[str](self._load)
        self._shown: dict[str, BrowsedMemory] = {}
        self._chosen: dict[str, BrowsedMemory] = {}

    async def show(self) -> None:
        in_more = {OF, *ENTRIES, *(choice.name for choice in MORE_CHOICES)}
        with ui.element("div").classes("filters"):
            self._add_entry(WORDS, "Search").props("data-search")
            for choice in CHOICES:
                self._add_choice(choice)
            is_open = not in_more.isdisjoint(self._filters)
            with Disclosure("More filters", is_open=is_open).content:
                for choice in MORE_CHOICES:
                    self._add_choice(choice)
                for name, label in ENTRIES.items():
                    self._add_entry(name, label)
                if self._sees_all:
                    self._add_entry(OF, "Of user")
        self._place = ui.element("div").classes("page-content").props("data-rows")
        await self._load()
        self._viewer.on_return = self._load_unless_chosen
        if wanted := self._viewer.query.get("id"):
            # What is wrong with an old address is said beside the table, and not in its place.
            ui.timer(0, partial(self._open, wanted), once=True)

    def _add_choice(self, choice: FilterChoice) -> None:
        options = {value: readable(value) for value in choice.values}
        named = self._filters.get(choice.name, "").split(",")
        chosen = [value for value in named if value in options]
        select = ui.select(options, multiple=True, value=chosen, label=choice.label)
        select.props("outlined dense options-dense")
        select.on_value_change(partial(self._filter_by, choice.name))

    def _add_entry(self, name: str, label: str) -> ui.input:
        entry = ui.input(label, value=self._filters.get(name, ""))
        entry.props(f"outlined dense clearable debounce={TYPING_MILLISECONDS}")
        entry.on_value_change(partial(self._filter_by, name))
        return entry

    async def _filter_by(self, name: str, event: ValueChangeEventArguments[Any]) -> None:
        value = event.value or ""
        self._filters[name] = ",".join(value) if isinstance(value, list) else value.strip()
        self._filters = {name: value for name, value in self._filters.items() if value}
        self._pager.restart()
        self._viewer.set_address(**self._filters)
        await self._load()

    async def _load_unless_chosen(self) -> None:
        if not self._chosen:
            await self._load()

    async def _load(self) -> None:
        """Show a page of the table.

        Raises:
            InvalidArgumentsError: The address has a value that a filter does not know.
        """
        wanted: dict[str, Any] = {"limit": PAGE_SIZE}
        for name, value in self._filters.items():
            wanted[name] = value.split(",") if name in LISTS else value
        try:
            request: Browse = msgspec.convert(wanted, BrowseAll if self._sees_all else Browse)
        except msgspec.ValidationError as error:
            problem, path = split_path(abridged(error))
            name = path.lstrip(".").partition("[")[0]
            raise InvalidArgumentsError(
                f"The filter {name} in the address: {problem}.",
                remedy="Open this page from the navigation.",
            ) from error

        self._wanted = request

        async def read(after: str | None) -> BrowsedPage:
            page = msgspec.structs.replace(request, after=after)
            return await self._viewer.memory.browse(page)

        page = await read_on(read, lambda found: not found.memories, self._pager.cursor)
        if request is not self._wanted:  # another filter was chosen meanwhile
            return
        self._shown = {memory.id: memory for memory in page.memories}
        self._chosen = {}
        self._place.clear()
        with self._place:
            self._changes = ui.element("div").classes("row-of chosen")
            self._changes.visible = False
            if page.memories:
                may_change = self._viewer.may(HIDE_MEMORIES.name)
                rows = [_row(memory, may_change=may_change) for memory in page.memories]
                Table(
                    COLUMNS,
                    ROWS,
                    rows,
                    open=lambda event: self._open(event.args),
                    choose=self._choose_row,
                )
            elif page.next is not None:
                empty("o_hourglass_empty", "Nothing so far.", "Older memories may match: read on.")
            elif self._filters or not self._pager.is_first:
                hint = "Look for other words, or clear a filter."
                empty("o_filter_alt_off", "Nothing matches.", hint)
            else:
                empty(
                    "o_notes",
                    "Nothing is remembered yet.",
                    "Connect an agent, talk in the terminal (`local2 chat`), or bring "
                    "conversations with you (`local2 import`).",
                )
            self._pager.show(page.next)

    def _choose_row(self, event: GenericEventArguments) -> None:
        id_, is_chosen = event.args
        self._chosen.pop(id_, None)
        if is_chosen and id_ in self._shown:
            self._chosen[id_] = self._shown[id_]
        self._changes.visible = bool(self._chosen)
        self._changes.clear()
        with self._changes:
            text("span", f"{len(self._chosen)} chosen")
            MemoryChanges(self._viewer, list(self._chosen.values()), self._load).show()

    async def _open(self, id_: str) -> None:
        await open_memory(self._viewer, id_, self._load, self._shown.get(id_))


def _row(memory: BrowsedMemory, *, may_change: bool) -> dict[str, Any]:
    """A row of the table, of which the browser shows everything as text.

    `can`: whether it can be chosen, to be changed with others.
    """
    tags = [readable(memory.memory_type or memory.kind)]
    if memory.state != "active":
        tags.append(memory.state)
    if memory.pinned:
        tags.append("pinned")
    return {
        "key": memory.id,
        "can": may_change and memory.state == "active" and memory.by == "self",
        "topic": memory.topic or memory.label or "",
        "text": memory.content[:TEXT_CHARACTERS] or NO_TEXT,
        "tags": tags,
        "whose": memory.user or readable(memory.scope),
        "said": said(memory.event_time),
        "exact": exact(memory.event_time),
    }
