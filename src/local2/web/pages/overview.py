"""Overview: whether everything works, what the memory has, and how it grows; kept up to date."""

import asyncio
from collections import defaultdict
from collections.abc import Sequence
from datetime import date, timedelta
from typing import get_args

from nicegui import ui
from nicegui.element import Element

from local2.errors import UnavailableError
from local2.protocol.browsing import DayCount, Growth, GrowthRequest, Overview
from local2.protocol.envelope import utc_now
from local2.protocol.maintenance import CheckResult, Findings, MemoryStatus, ModelStatus, Verdict
from local2.protocol.memories import Kind
from local2.protocol.payloads import Empty
from local2.protocol.services import FINDINGS, GROWTH, GROWTH_ALL
from local2.web.pages.frame import (
    Disclosure,
    Table,
    Viewer,
    empty,
    exact,
    facts,
    link,
    prose,
    said,
    section,
    tag,
    text,
)
from local2.web.pages.memory_drawer import readable

LOOK_SECONDS = 5.0
"""Seconds between two looks at whether everything works."""
COUNT_SECONDS = 30.0
"""Seconds between two counts, which read an index of everything that may be seen."""
DAYS = 30
KINDS: Sequence[Kind] = get_args(Kind)
MARKS: dict[Verdict, tuple[str, str]] = {
    "broken": ("o_error", "Broken"),
    "note": ("o_info", "Note"),
    "ok": ("o_check_circle", "Works"),
}
"""The icon and the word for each verdict, the most urgent first."""

WORKS = {
    "embedding": "Meaning of texts",
    "extraction": "Finding facts",
    "judging": "Contradictions",
    "queries": "Questions",
    "answers": "Answers",
}
"""What is done by a model or by rules, as people say it."""
PARTS = {
    "tasks": ("tasks", "tasks"),
    "dead letters": ("letters", "dead_letters"),
    "backups": ("backups", "backup"),
}
"""The part of Upkeep where a finding is settled, and what the viewer's role must permit there."""

KIND_ROWS = """
<tr>
  <td><span class="swatch" :class="row.shade"></span> {{ row.name }}</td>
  <td data-label="Stand">{{ row.active }}</td>
  <td data-label="Former" class="quiet">{{ row.past }}</td>
  <td data-label="Newest" class="quiet">
    <time :title="row.exact">{{ row.said }}</time>
  </td>
</tr>
"""
KIND_COLUMNS = ("Kind", "Stand", "Former", "Newest")


async def show(viewer: Viewer) -> None:
    await OverviewPage(viewer).show()


class OverviewPage:
    """One viewer's overview; a part is built again when what it shows has changed."""

    def __init__(self, viewer: Viewer) -> None:
        self._viewer = viewer
        self._found: Findings | None = None
        self._counted: tuple[Overview, Growth] | None = None

    async def show(self) -> None:
        with section("Health"):
            self._urgent = _awaited("Looking …")
            with ui.element("div").classes("stack"):
                # It stays as the viewer has left it, open or not.
                self._works = Disclosure("")
                self._works.visible = False
        with ui.element("div").classes("columns"):
            with section("Index and queue"):
                self._index = _awaited("Looking …")
            with section("Models"):
                self._models = _awaited("Looking …")
            with section("Disk and backups"):
                self._disk = _awaited("Looking …")
        with section("Growth", f"Memories by the day they are of (UTC), the last {DAYS} days."):
            self._growth = _awaited("Counting …")
        # The page waits for neither: among a million memories, both take a while, and counting
        # would delay the look at what works.
        self._viewer.on_return = self._begin
        ui.timer(0, self._begin, once=True)
        ui.timer(LOOK_SECONDS, self._look, immediate=False)
        ui.timer(COUNT_SECONDS, self._count, immediate=False)

    async def _begin(self) -> None:
        await self._look()
        await self._count()

    async def _look(self) -> None:
        if not self._viewer.link.is_reached:
            return
        try:
            found = await self._viewer.calls.ask_service(FINDINGS, Empty())
        except UnavailableError as error:
            self._found = None
            self._urgent.clear()
            with self._urgent:
                self._show_finding(CheckResult.broken("memory", error))
            return
        if found == self._found:
            return
        self._found = found
        for place in (self._urgent, self._works.content, self._index, self._models, self._disk):
            place.clear()
        self._show_findings(found.findings)
        with self._index:
            _show_index(found.status)
        with self._models:
            _show_models(found.status.embedder, found.status.models)
        details = {finding.name: finding.detail for finding in found.findings}
        with self._disk:
            facts(
                {
                    "Disk": details["disk"],
                    # With accounts, only the operator is told.
                    "Backups": details.get("backups", "the operator makes those of all tenants"),
                }
            )

    def _show_findings(self, findings: Sequence[CheckResult]) -> None:
        """Show what needs attention, and the rest behind a line that opens."""
        urgent = [
            finding
            for verdict in ("broken", "note")
            for finding in findings
            if finding.verdict == verdict
        ]
        with self._urgent:
            if not any(finding.verdict == "broken" for finding in urgent):
                with ui.element("div").classes("finding"):
                    ui.icon(MARKS["ok"][0]).props("aria-hidden=true")
                    text("strong", "The memory works.")
            for finding in urgent:
                self._show_finding(finding)
        works = [finding for finding in findings if finding.verdict == "ok"]
        self._works.title.text = f"What works ({len(works)})"
        self._works.visible = True
        with self._works.content:
            for finding in works:
                self._show_finding(finding)

    def _show_finding(self, finding: CheckResult) -> None:
        icon, word = MARKS[finding.verdict]
        with ui.element("div").classes(f"finding {finding.verdict}"):
            ui.icon(icon).props(f'role=img aria-label="{word}"')
            with ui.element("div"):
                with ui.element("p"):
                    text("strong", f"{finding.name.capitalize()}: ")
                    text("span", finding.detail)
                if finding.remedy:
                    prose(finding.remedy).classes("quiet")
                part, needs = PARTS.get(finding.name, ("", ""))
                if finding.verdict != "ok" and part and self._viewer.may(needs):
                    link("Open in Upkeep", "/upkeep", part=part)

    async def _count(self) -> None:
        if not self._viewer.link.is_reached:
            return
        of_all = self._viewer.may("browse_all")
        calls = self._viewer.calls
        try:
            counted = await asyncio.gather(
                self._viewer.memory.overview(everybody=of_all),
                calls.ask_service(GROWTH_ALL if of_all else GROWTH, GrowthRequest(days=DAYS)),
            )
        except UnavailableError:  # its health says so
            return
        if counted == self._counted:
            return
        self._counted = counted
        overview, growth = counted
        self._growth.clear()
        with self._growth:
            if not overview.counts:
                empty("o_notes", "Nothing is remembered yet.", "What is stored is counted here.")
                return
            _show_growth(growth.days, utc_now().date())
            _show_kinds(overview)


def _awaited(said: str) -> Element:
    """A place that says so, if what belongs there takes a while."""
    with ui.element("div").classes("stack") as place:
        text("p", said).classes("quiet awaited")
    return place


def _show_index(status: MemoryStatus) -> None:
    in_index = "it does not answer" if status.in_index is None else f"{status.in_index:,}"
    aside = sum(tasks.aside for tasks in status.set_aside)
    not_indexed = sum(tasks.aside for tasks in status.set_aside if tasks.kind == "index")
    unsearched = status.records - status.indexed - status.waiting - not_indexed
    facts(
        {
            "Records": f"{status.records:,}",
            "Found by searches": f"{status.indexed:,}",
            "Vectors in the index": in_index,
            "Only in the history": f"{unsearched:,}",
            "To be indexed": f"{status.waiting:,}",
            "To be read for facts": f"{status.unread:,}",
            "Turns to be stored": f"{status.turns_waiting:,}",
            "Tasks that failed": f"{aside:,}",
            "Messages not stored": f"{status.dead_letters:,}",
        }
    )
    if status.next is not None:
        text(
            "p",
            f"{status.next.embedder} replaces the embedder; it still has to embed "
            f"{status.next.waiting:,} records.",
        ).classes("quiet")


def _show_models(embedder: str | None, models: ModelStatus | None) -> None:
    entries = {"embedding": embedder or "does not answer"}
    problems = {}
    for use in models.uses if models else ():
        entries[use.work] = use.by
        if use.problem:
            problems[use.work] = use.problem
    if models is not None and (models.calls or models.max_calls):
        most = f" of {models.max_calls:,}" if models.max_calls else ""
        entries["calls today"] = f"{models.calls:,}{most}"
        most = f" of {models.max_tokens:,}" if models.max_tokens else ""
        entries["tokens today"] = f"{models.tokens:,}{most}"
    facts({WORKS.get(name, name.capitalize()): value for name, value in entries.items()})
    for work, problem in problems.items():
        with ui.element("p").classes("quiet"):
            tag(WORKS.get(work, work), "warning")
            text("span", f" {problem}")


def _show_growth(counts: Sequence[DayCount], today: date) -> None:
    """Draw a bar for each day, with a part for each kind."""
    by_day: defaultdict[date, dict[Kind, int]] = defaultdict(dict)
    for counted in counts:
        by_day[counted.day][counted.kind] = counted.added
    days = [today - timedelta(days=ago) for ago in reversed(range(DAYS))]
    # What a clock that is ahead has dated later belongs to no bar.
    sums = {day: sum(by_day[day].values()) for day in days}
    highest = max(sums.values())
    with ui.element("figure").classes("growth"):
        with ui.element("div").classes("bars").props("role=img") as bars:
            bars.props["aria-label"] = (
                f"{sum(sums.values()):,} memories in {DAYS} days, at most {highest:,} on a day"
            )
            for day in days:
                added = [f"{count:,} {readable(kind)}" for kind, count in by_day[day].items()]
                with ui.element("div").classes("bar") as bar:
                    bar.props["title"] = f"{day:%A, %-d %B}: {', '.join(added) or 'nothing'}"
                    for kind, count in by_day[day].items():
                        part = ui.element("span").classes(_shade(kind))
                        part.style(f"height: {100 * count / highest:.2f}%")
        with ui.element("figcaption").classes("quiet"):
            text("span", f"{days[0]:%-d %b}")
            text("span", f"at most {highest:,} a day")
            text("span", "today")


def _shade(kind: Kind) -> str:
    """The class of a kind's colour in the chart."""
    return f"shade-{KINDS.index(kind)}"


def _show_kinds(overview: Overview) -> None:
    rows = []
    for kind in KINDS:
        counts = [count for count in overview.counts if count.kind == kind]
        if counts:
            newest = max(count.last for count in counts)
            rows.append(
                {
                    "key": kind,
                    "name": readable(kind),
                    "shade": _shade(kind),
                    "active": f"{sum(count.active for count in counts):,}",
                    "past": f"{sum(count.past for count in counts):,}",
                    "said": said(newest),
                    "exact": exact(newest),
                }
            )
    Table(KIND_COLUMNS, KIND_ROWS, rows)
