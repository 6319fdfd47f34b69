"""Upkeep: consolidation, the log of changes, retention, failed work and backups, a part at a time.

Whatever a part changes is previewed or confirmed, and undone where the memory can undo it.
"""

from collections import Counter
from collections.abc import Awaitable, Callable
from contextlib import suppress
from typing import Any, NamedTuple

from nicegui import ui
from nicegui.element import Element
from nicegui.events import GenericEventArguments

from local2.errors import UnavailableError
from local2.protocol.maintenance import (
    BackupList,
    BackupRequest,
    BackupsFound,
    BackupStatus,
    LetterAction,
    LetterRequest,
    StoredLetter,
    TaskAction,
    TaskReport,
    TaskRequest,
    VerificationRequest,
    size_in_units,
)
from local2.protocol.memory_tools import (
    AUDIT,
    CONSOLIDATE,
    MEMORY_HISTORY,
    Audit,
    Consolidate,
    ConsolidationReport,
    MemoryHistory,
)
from local2.protocol.payloads import Empty
from local2.protocol.services import (
    BACKUP,
    DEAD_LETTERS,
    LIST_BACKUPS,
    RETENTION,
    STATUS,
    TASKS,
    VERIFY_BACKUP,
)
from local2.web.pages.frame import (
    TEXT_CHARACTERS,
    Pager,
    Row,
    Table,
    Viewer,
    confirmed,
    counted,
    drawer,
    empty,
    exact,
    facts,
    notify,
    notify_of_run,
    said,
    section,
    tag,
    text,
    undo_run,
    when,
)
from local2.web.pages.memory_drawer import open_memory, readable

CONSOLIDATION_SECONDS = 600.0
"""Seconds that a consolidation may take, since it may ask a model."""
AUDIT_ENTRIES = 50
LETTERS = 50
"""Number of dead letters on a page; each is read by itself."""
LOOK_SECONDS = 2.0
"""Seconds between two looks at whether another dead letter has come."""
POLL_SECONDS = 1.0
"""Seconds between two looks at the progress of a backup."""
DAY_HOURS = 24


class Part(NamedTuple):
    """A part of the page; `needs`: what the viewer's role must permit."""

    name: str
    title: str
    needs: str
    show: Callable[[Viewer], Awaitable[None]]


async def show(viewer: Viewer) -> None:
    parts = [part for part in PARTS if viewer.may(part.needs)]
    named = viewer.query.get("part")
    shown = next((part for part in parts if part.name == named), parts[0])
    with ui.element("nav").classes("tabs").props('aria-label="Parts of upkeep"'):
        for part in parts:
            with Element("a").props(f"href=?part={part.name}") as link:
                text("span", part.title)
            if part is shown:
                link.props("aria-current=true")
    await shown.show(viewer)


class RefreshedPart:
    """A part whose content is built again after it has changed something."""

    def __init__(self, viewer: Viewer) -> None:
        self.viewer = viewer
        self.calls = viewer.calls

    async def show(self) -> None:
        self._place = ui.element("div").classes("page-content").props("data-rows")
        await self.refresh()
        self.viewer.on_return = self.refresh

    async def refresh(self) -> None:
        raise NotImplementedError

    def rebuild(self) -> Element:
        """Empty the part; what is added within `with` is its new content."""
        self._place.clear()
        return self._place

    async def open_row(self, event: GenericEventArguments) -> None:
        """Open the memory of a row in the drawer."""
        await open_memory(self.viewer, event.args, self.refresh)


# Consolidation


class ConsolidationPart(RefreshedPart):
    """Facts in order: what would change is shown first, and then changed."""

    async def show(self) -> None:
        await super().show()
        self._preview_place = ui.element("div").classes("page-content")

    async def refresh(self) -> None:
        status = await self.calls.ask_service(STATUS, Empty())
        last, hours = status.consolidation, status.consolidation_hours
        match hours:
            case None:
                by_itself = ""
            case 0:
                by_itself = " It only runs when it is applied here (consolidation_hours: 0)."
            case _:
                often = "once a day" if hours == DAY_HOURS else f"every {hours:g} hours"
                by_itself = f" It runs by itself {often}."
        with (
            self.rebuild(),
            section(
                "Keep facts in order",
                "Archives what is stale, merges what says the same, and settles contradictions."
                + by_itself,
            ),
        ):
            if last is not None and last.began_at is not None:
                with ui.element("p").classes("row-of"):
                    text("span", "Last time:")
                    when(last.began_at)
                    text("span", counted(last.changed, "change"))
                    if last.failed:
                        tag(f"{last.failed:,} failed", "danger")
            if last is not None and last.problem:
                text("p", last.problem).classes("quiet")
            with ui.row():
                ui.button("Preview", on_click=self._preview).props("outline")

    async def _preview(self) -> None:
        report = await self._consolidate(dry_run=True)
        self._preview_place.clear()
        with self._preview_place:
            if not report.changes:
                empty("o_done_all", "Everything is in order.", "Nothing would be changed.")
                return
            with section(f"{_counted(report)} of {report.facts:,} facts"):
                rows = [
                    {
                        "key": number,
                        "id": change.id,
                        "what": readable(change.action),
                        "text": change.content[:TEXT_CHARACTERS],
                        "why": change.reason,
                    }
                    for number, change in enumerate(report.changes)
                ]
                Table(CHANGE_COLUMNS, CHANGE_ROWS, rows, open=self.open_row)
                with ui.row():
                    ui.button("Apply", on_click=self._apply)
            for left in report.left:
                with ui.element("p").classes("quiet"):
                    text("span", f"Stays as it is: {left.reason} ")
                    text("span", f"{left.id}, {left.contradicts}").classes("mono")

    async def _apply(self) -> None:
        explanation = (
            "Memories may have changed since the preview: the changes are those that are due now. "
            "All of them can be undone together."
        )
        if not await confirmed("Put facts in order?", explanation, "Apply"):
            return
        report = await self._consolidate(dry_run=False)
        notify_of_run(self.viewer, f"Done: {_counted(report)}.", report.run, self.refresh)
        self._preview_place.clear()
        await self.refresh()

    async def _consolidate(self, *, dry_run: bool) -> ConsolidationReport:
        asked = Consolidate(dry_run=dry_run)
        return await self.calls.ask(CONSOLIDATE, asked, within=CONSOLIDATION_SECONDS)


CHANGE_COLUMNS = ("What", "Memory", "Why")
CHANGE_ROWS = """
<tr tabindex="0" data-row @click="$parent.$emit('open', row.id)">
  <td><span class="tag">{{ row.what }}</span></td>
  <td><span class="two-lines">{{ row.text }}</span></td>
  <td class="quiet">{{ row.why }}</td>
</tr>
"""


def _counted(report: ConsolidationReport) -> str:
    counts = Counter(readable(change.action) for change in report.changes)
    return ", ".join(f"{count:,} {action}" for action, count in counts.items()) or "no changes"


# The log of changes


class ChangesPart(RefreshedPart):
    """Who changed what and why, the newest first; a run of changes is undone together."""

    def __init__(self, viewer: Viewer) -> None:
        super().__init__(viewer)
        self._pager = Pager[int](self.refresh)

    async def refresh(self) -> None:
        asked = Audit(limit=AUDIT_ENTRIES, before=self._pager.cursor)
        trail = await self.calls.ask(AUDIT, asked)
        contents = await self._contents_of({entry.id for entry in trail.entries})
        with self.rebuild():
            if not trail.entries:
                empty(
                    "o_history",
                    "Nothing was changed.",
                    "Edits, corrections and consolidations are listed here, with who and why.",
                )
                return
            rows = [
                {
                    "key": entry.number,
                    "id": entry.id,
                    "said": said(entry.at),
                    "exact": exact(entry.at),
                    "what": readable(entry.action),
                    "memory": contents.get(entry.id, ""),
                    "what_of": entry.topic or readable(entry.memory_type or entry.kind or ""),
                    "who": ", ".join(filter(None, (BY.get(entry.by or ""), entry.agent))),
                    "why": entry.reason or "",
                    "run": None if entry.action == "undone" else entry.run,
                }
                for entry in trail.entries
            ]
            Table(ENTRY_COLUMNS, ENTRY_ROWS, rows, open=self.open_row, undo=self._undo)
            self._pager.show(trail.next)

    async def _contents_of(self, ids: set[str]) -> dict[str, str]:
        """The texts of memories by id, as far as the viewer may see them: the log has none."""
        contents: dict[str, str] = {}
        for id_ in ids:
            if id_ not in contents:  # a fact's history has its other versions, too
                history = await self.calls.ask(MEMORY_HISTORY, MemoryHistory(topic_or_id=id_))
                contents |= {
                    version.id: version.content[:TEXT_CHARACTERS] for version in history.versions
                }
        return contents

    async def _undo(self, event: GenericEventArguments) -> None:
        run = str(event.args)
        trail = await self.calls.ask(AUDIT, Audit(run=run))
        count = f"{len(trail.entries):,}{' or more' if trail.next is not None else ''}"
        explanation = f"Its entries here: {count}. What has changed since stays as it is."
        if await confirmed("Undo this run?", explanation, "Undo"):
            await undo_run(self.viewer, run, self.refresh)


BY = {"self": "you", "other": "somebody else", "unnamed": "nobody named"}
ENTRY_COLUMNS = ("When", "What", "Memory", "Who", "Why")
ENTRY_ROWS = """
<tr tabindex="0" data-row @click="$parent.$emit('open', row.id)">
  <td class="quiet"><time :title="row.exact">{{ row.said }}</time></td>
  <td><span class="tag">{{ row.what }}</span></td>
  <td :title="row.id">
    <span v-if="row.memory" class="two-lines">{{ row.memory }}</span>
    <span class="quiet">{{ row.what_of || row.id }}</span>
  </td>
  <td class="quiet">{{ row.who }}</td>
  <td class="quiet why">
    {{ row.why }}
    <button v-if="row.run" type="button" class="row-action"
      :title="'Run ' + row.run" @click.stop="$parent.$emit('undo', row.run)">
      Undo
    </button>
  </td>
</tr>
"""


# Retention


async def show_retention(viewer: Viewer) -> None:
    """Show what is anonymised next, or would be."""
    report = await viewer.calls.ask_service(RETENTION, Empty())
    is_on = report.anonymise == "on"
    with section("Retention"):
        will_be = "is deleted within the hour" if is_on else "would be deleted if it were on"
        text(
            "p",
            f"The content of memories that were retired {report.after_days:,} days ago or longer "
            f"{will_be}: at present {report.due:,}.",
        )
        facts({"Setting": f"anonymise: {report.anonymise} (config/memory.yaml)"})
    if not report.records:
        empty("o_event_available", "Nothing is due.", "Retired memories are listed here in time.")
        return
    rows = [
        {
            "key": record.id,
            "said": said(record.retired_at) if record.retired_at else "",
            "exact": exact(record.retired_at) if record.retired_at else "",
            "what": readable(record.retired_why or record.kind),
            "text": record.content,
        }
        for record in report.records
    ]
    Table(("Retired", "Why", "Memory"), DUE_ROWS, rows)
    if report.due > len(rows):
        text("p", f"… and {report.due - len(rows):,} more.").classes("quiet")


DUE_ROWS = """
<tr>
  <td class="quiet"><time :title="row.exact">{{ row.said }}</time></td>
  <td><span class="tag">{{ row.what }}</span></td>
  <td><span class="two-lines">{{ row.text }}</span></td>
</tr>
"""


# Dead letters


class LettersPart(RefreshedPart):
    """Messages that could not be stored: read, published again, or discarded.

    A letter that comes meanwhile is added, such as one that could not be stored once more.
    """

    def __init__(self, viewer: Viewer) -> None:
        super().__init__(viewer)
        self._pager = Pager[int](self.refresh, before="Earlier", after="Later")
        self._letters: dict[int, StoredLetter] = {}

    async def show(self) -> None:
        await super().show()
        ui.timer(LOOK_SECONDS, self._follow, immediate=False)

    async def refresh(self) -> None:
        letters: list[StoredLetter] = []
        found = await self._ask("next", self._pager.cursor or 1)
        while found is not None and len(letters) < LETTERS:
            letters.append(found)
            found = await self._ask("next", found.sequence + 1)
        if not letters and not self._pager.is_first:  # the last ones of all were settled
            self._pager.restart()
            await self.refresh()
            return
        self._letters = {letter.sequence: letter for letter in letters}
        with self.rebuild():
            if not letters:
                empty("o_mark_email_read", "No dead letters.", "Every message could be stored.")
                return
            self._table = Table(LETTER_COLUMNS, LETTER_ROWS, self._rows(), read=self._read)
            self._pager.show(found.sequence if found is not None else None)

    def _rows(self) -> list[Row]:
        return [
            {
                "key": stored.sequence,
                "said": said(stored.at),
                "exact": exact(stored.at),
                "what": stored.letter.subject,
                "who": stored.letter.source,
                "why": stored.letter.reason,
            }
            for stored in self._letters.values()
        ]

    async def _follow(self) -> None:
        if not self.viewer.link.is_reached or len(self._letters) == LETTERS:
            return
        newest = max(self._letters, default=0)
        found = await self._ask("next", newest + 1)
        if found is None or newest != max(self._letters, default=0):  # it was refreshed meanwhile
            return
        if not self._letters:
            await self.refresh()
            return
        self._letters[found.sequence] = found
        self._table.show(self._rows())

    async def _read(self, event: GenericEventArguments) -> None:
        stored = self._letters[int(event.args)]
        letter = stored.letter
        with drawer("Dead letter", f"Dead letter {stored.sequence}") as opened:
            text("p", letter.reason)
            with ui.row():
                again = ui.button(
                    "Publish again", on_click=lambda: self._settle("retry", stored, opened)
                )
                again.set_enabled(not letter.cut)
                discard = ui.button(
                    "Discard", on_click=lambda: self._settle("drop", stored, opened)
                )
                discard.props("outline color=negative")
            if letter.cut:
                text("p", "Only its beginning is here: its sender has to send it again.")
            facts(
                {
                    "Subject": letter.subject,
                    "Sender": letter.source or "unknown",
                    "User": letter.user or "unknown",
                    "Given up": exact(stored.at),
                }
            )
            text("pre", letter.message).classes("whole-text mono")

    async def _settle(self, action: LetterAction, stored: StoredLetter, opened: ui.dialog) -> None:
        if action == "drop" and not await confirmed(
            "Discard this letter?", "Its message is gone for good.", "Discard", destroys=True
        ):
            return
        await self._ask(action, stored.sequence)
        opened.close()
        notify("Published again." if action == "retry" else "Discarded.")
        await self.refresh()

    async def _ask(self, action: LetterAction, number: int) -> StoredLetter | None:
        wanted = LetterRequest(action=action, number=number)
        return (await self.calls.ask_service(DEAD_LETTERS, wanted)).found


LETTER_COLUMNS = ("When", "Subject", "Sender", "Why not")
LETTER_ROWS = """
<tr tabindex="0" data-row @click="$parent.$emit('read', row.key)">
  <td class="quiet"><time :title="row.exact">{{ row.said }}</time></td>
  <td class="mono">{{ row.what }}</td>
  <td class="quiet">{{ row.who }}</td>
  <td>{{ row.why }}</td>
</tr>
"""


# Tasks


class TasksPart(RefreshedPart):
    """What has yet to be done with records, and what failed at it."""

    async def refresh(self, report: TaskReport | None = None) -> None:
        report = report or await self._ask("list")
        with self.rebuild():
            with section(
                "Work on records",
                "A task that fails again and again is set aside, and tried once more when the "
                "memory starts.",
            ):
                if not report.counts:
                    text("p", "Everything is done.")
                else:
                    facts(
                        {
                            readable(count.kind): f"{count.waiting:,} waiting, "
                            f"{count.aside:,} set aside"
                            for count in report.counts
                        }
                    )
                if any(count.aside for count in report.counts):
                    with ui.row():
                        ui.button("Try all again", on_click=lambda: self._change("retry"))
                        discard = ui.button("Discard all", on_click=lambda: self._change("discard"))
                        discard.props("outline color=negative")
            if report.failed:
                rows = [
                    {
                        "key": f"{task.kind} {task.id}",
                        "id": task.id,
                        "kind": task.kind,
                        "what": readable(task.kind),
                        "why": task.error,
                        "tried": f"{task.attempts:,}",
                        "due": said(task.due) if task.due else "set aside",
                        "aside": task.due is None,
                    }
                    for task in report.failed
                ]
                Table(TASK_COLUMNS, TASK_ROWS, rows, open=self.open_row, again=self._retry)

    async def _retry(self, event: GenericEventArguments) -> None:
        kind, id_ = event.args
        await self._change("retry", kind=kind, ids=(id_,))

    async def _change(
        self, action: TaskAction, *, kind: str | None = None, ids: tuple[str, ...] | None = None
    ) -> None:
        explanation = (
            "Nothing will be extracted from their messages, or judged. Tasks of the index stay."
        )
        if action == "discard" and not await confirmed(
            "Discard what was set aside?", explanation, "Discard", destroys=True
        ):
            return
        report = await self._ask(action, kind, ids)
        done = "Tried again" if action == "retry" else "Discarded"
        notify(f"{done}: {counted(report.changed, 'task')}.")
        await self.refresh(report)

    async def _ask(
        self, action: TaskAction, kind: str | None = None, ids: tuple[str, ...] | None = None
    ) -> TaskReport:
        wanted = TaskRequest(action=action, kind=kind, ids=ids)
        return await self.calls.ask_service(TASKS, wanted)


TASK_COLUMNS = ("Task", "Record", "Why it failed", "Again")
TASK_ROWS = """
<tr tabindex="0" data-row @click="$parent.$emit('open', row.id)">
  <td><span class="tag">{{ row.what }}</span></td>
  <td class="mono quiet">{{ row.id }}</td>
  <td>{{ row.why }} <span class="quiet">({{ row.tried }} times)</span></td>
  <td class="quiet">
    {{ row.due }}
    <button v-if="row.aside" type="button" class="row-action"
      @click.stop="$parent.$emit('again', [row.kind, row.id])">
      Try again
    </button>
  </td>
</tr>
"""


# Backups


class BackupsPart(RefreshedPart):
    """Backups of everything: listed, made, and read whole to see whether they are intact."""

    async def show(self) -> None:
        status = await self._ask_status()
        self._folder = status.scheduled or (status.last.folder if status.last is not None else "")
        with section("Backups"):
            if status.scheduled is None:
                hint = "None are made by themselves: set backup_folder in config/memory.yaml."
                text("p", hint).classes("quiet")
            folder = ui.input("Folder on the machine of the memory", value=self._folder)
            folder.props("outlined dense").on_value_change(self._name_folder)
            with ui.row():
                self._make_button = ui.button("Make a backup", on_click=self._make)
                self._show_button = ui.button("List backups", on_click=self.refresh).props(
                    "outline"
                )
            self._progress = ui.element("div").classes("stack")
        await super().show()
        ui.timer(POLL_SECONDS, self._follow, immediate=False)

    async def refresh(self) -> None:
        status = await self._ask_status()
        self._show_progress(status)
        found: BackupsFound | None = None
        if self._folder and not status.under_way:
            with suppress(UnavailableError):  # there is no such folder yet
                found = await self.calls.ask_service(LIST_BACKUPS, BackupList(folder=self._folder))
        with self.rebuild():
            if found is not None and found.backups:
                rows = [
                    {
                        "key": backup.generation,
                        "said": said(backup.at),
                        "exact": exact(backup.at),
                        "records": ""
                        if backup.records is None
                        else counted(backup.records, "record"),
                        "size": "" if backup.size is None else size_in_units(backup.size),
                        "note": "encrypted" if backup.encrypted else backup.problem or "",
                    }
                    for backup in found.backups
                ]
                Table(BACKUP_COLUMNS, BACKUP_ROWS, rows, verify=self._verify)
            elif self._folder and not status.under_way:
                empty("o_inventory_2", "No backups here.", "Make one, or name another folder.")

    async def _follow(self) -> None:
        """Show the progress, while there is any; the form above it stays as it is."""
        if not self._is_under_way or not self.viewer.link.is_reached:
            return
        status = await self._ask_status()
        if status.under_way:
            self._show_progress(status)
        else:
            await self.refresh()

    def _show_progress(self, status: BackupStatus) -> None:
        self._is_under_way = status.under_way
        self._make_button.set_enabled(not status.under_way)
        self._show_button.set_enabled(not status.under_way)
        self._progress.clear()
        with self._progress:
            if status.under_way:
                doing = "Reading the backup" if status.verifying else "Making a backup"
                total = f" of {size_in_units(status.total)}" if status.total else ""
                text("p", f"{doing}: {size_in_units(status.done)}{total}").props("role=status")
                share = status.done / status.total if status.total else 0
                bar = ui.linear_progress(value=share, show_value=False)
                bar.props('aria-label="Progress"')
                return
            if status.problem is not None:
                with ui.element("p"):
                    tag("failed", "danger")
                    text("span", f" {status.problem}")
            if (verified := status.verified) is None:
                return
            with ui.element("p").classes("row-of"):
                if verified.damaged:
                    tag("damaged", "danger")
                else:
                    tag("intact", "accent")
                text("span", f"{verified.generation} was read whole, made")
                when(verified.at)
            for ledger in verified.ledgers:
                if ledger.damage is not None:
                    text("p", f"{ledger.path}: {ledger.damage}")
                elif ledger.unread is not None:
                    whole = f"{ledger.path}: every piece is intact; {ledger.unread}"
                    text("p", whole).classes("quiet")

    def _name_folder(self, event: Any) -> None:
        self._folder = (event.value or "").strip()

    async def _make(self) -> None:
        await self.calls.ask_service(BACKUP, BackupRequest(folder=self._folder))
        await self.refresh()

    async def _verify(self, event: GenericEventArguments) -> None:
        wanted = VerificationRequest(folder=self._folder, generation=str(event.args))
        await self.calls.ask_service(VERIFY_BACKUP, wanted)
        await self.refresh()

    async def _ask_status(self) -> BackupStatus:
        return await self.calls.ask_service(BACKUP, BackupRequest())


BACKUP_COLUMNS = ("Made", "Backup", "Content", "")
BACKUP_ROWS = """
<tr>
  <td><time :title="row.exact">{{ row.said }}</time></td>
  <td class="mono quiet">{{ row.key }}</td>
  <td class="quiet">{{ row.records }} {{ row.size }}</td>
  <td class="quiet">
    {{ row.note }}
    <button type="button" class="row-action" @click.stop="$parent.$emit('verify', row.key)">
      Verify
    </button>
  </td>
</tr>
"""


OPERATOR_ONLY = "backup"
"""No role permits it: with accounts, backups of all tenants are the operator's."""

PARTS = (
    Part(
        "consolidation", "Facts", CONSOLIDATE.name, lambda viewer: ConsolidationPart(viewer).show()
    ),
    Part("changes", "Changes", AUDIT.name, lambda viewer: ChangesPart(viewer).show()),
    Part("tasks", "Failed work", "tasks", lambda viewer: TasksPart(viewer).show()),
    Part("letters", "Dead letters", "dead_letters", lambda viewer: LettersPart(viewer).show()),
    Part("retention", "Retention", "retention", show_retention),
    Part("backups", "Backups", OPERATOR_ONLY, lambda viewer: BackupsPart(viewer).show()),
)
