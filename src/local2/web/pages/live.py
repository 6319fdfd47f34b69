"""Live: the bus as it flows, filtered and paused, and one request drawn as a waterfall.

The page listens to what is published for everybody: questions, results of tools, answers and
events. It listens to no requests: whoever asks a tool that nobody serves would no longer be told
so at once. A call's beginning is known from its result, which names the id of the request, and an
id (UUIDv7) begins with its time.
"""

import time
from collections import deque
from collections.abc import Iterable, Sequence
from contextlib import AsyncExitStack
from datetime import UTC, datetime
from itertools import count, islice
from typing import Any
from uuid import UUID

import msgspec
from msgspec import Raw
from nicegui import ui
from nicegui.events import GenericEventArguments, ValueChangeEventArguments

from local2.client import BusMessage
from local2.errors import BusError, RequestError
from local2.protocol import subjects
from local2.protocol.envelope import Envelope, decode, utc_now
from local2.web.callers import claims_of
from local2.web.pages.frame import (
    Table,
    Viewer,
    drawer,
    empty,
    exact,
    facts,
    text,
)

PUBLIC = (
    subjects.TOOL_RESULTS,
    subjects.TOOL_CANCELS,
    "tool.progress.*",
    subjects.RESPONSE_DELTA,
    subjects.RESPONSE_GENERATION,
    subjects.SESSION_COMPACTION,
    subjects.SESSION_RESET,
    *subjects.EVENTS,
)
"""What every agent of a tenant may receive."""
UNATTESTED = (subjects.QUERY_RECEIVED, subjects.RESPONSE_FEEDBACK)
"""What only some may receive with accounts, because it carries tokens."""
MAX_KEPT = 500
"""Maximum number of messages that a page keeps; the oldest go first."""
MAX_SHOWN = 100
PAYLOAD_CHARACTERS = 4_000
"""Maximum characters that are kept of a message's payload."""
ROW_CHARACTERS = 160
SHOW_SECONDS = 0.5
"""Seconds between two looks at whether there is anything new to show."""
FILTER = "words"
UUID7 = 7

COLUMNS = ("At", "Subject", "Who", "Content")
ROWS = """
<tr tabindex="0" data-row @click="$parent.$emit('open', row.key)">
  <td class="quiet mono">{{ row.at }}</td>
  <td class="mono">{{ row.subject }}</td>
  <td class="quiet">{{ row.who }}</td>
  <td><span class="two-lines mono quiet">{{ row.payload }}</span></td>
</tr>
"""


class Seen(msgspec.Struct, frozen=True, kw_only=True):
    """A message that was seen on the bus; `payload` is the beginning of it, as it was sent."""

    number: int
    at: datetime
    subject: str
    payload: str
    envelope: Envelope[None]

    def has(self, words: Iterable[str]) -> bool:
        """Whether all words are in its subject, its sender or its payload."""
        envelope = self.envelope
        ids = (envelope.source, envelope.user, envelope.session_id, envelope.query_id)
        everything = " ".join(filter(None, (self.subject, *ids, self.payload))).casefold()
        return all(word in everything for word in words)


class WaterfallLine(msgspec.Struct, frozen=True, kw_only=True):
    """A line of a waterfall."""

    name: str
    begin: datetime
    end: datetime


async def show(viewer: Viewer) -> None:
    await LivePage(viewer).show()


class LivePage:
    """What one viewer has seen of the bus since the page was opened."""

    def __init__(self, viewer: Viewer) -> None:
        self._viewer = viewer
        self._seen: deque[Seen] = deque(maxlen=MAX_KEPT)
        self._numbers = count(1)
        self._words = viewer.query.get(FILTER, "")
        self._shown: list[Seen] = []
        self._shown_number = 0
        """The number of the newest message when the rows were shown last."""
        self._is_paused = False
        self._subscriptions = AsyncExitStack()
        self._is_held = False
        """Whether the reader is in the table, where nothing shall move meanwhile."""

    async def show(self) -> None:
        with ui.element("div").classes("filters"):
            words = ui.input("Filter", value=self._words)
            words.props("outlined dense clearable data-search").on_value_change(self._filter)
            with ui.element("div").classes("row-of"):
                self._pause_button = ui.button("Pause", icon="o_pause", on_click=self._pause)
                self._pause_button.props("outline")
        # It is never empty: a line that comes and goes would move the rows.
        self._said = text("p", "").classes("quiet").props("role=status")
        with ui.element("div").props("data-rows"):
            self._table = Table(COLUMNS, ROWS, (), open=self._open, held=self._hold)
            self._nothing = ui.element("div")
        self._show_seen()
        ui.context.client.on_delete(self._subscriptions.aclose)
        await self._subscribe()
        self._viewer.on_return = self._subscribe
        if (token := self._viewer.caller.token) is not None:
            seconds = max(claims_of(token).exp - time.time(), 0.0)
            ui.timer(seconds, self._subscriptions.aclose, once=True)
        ui.timer(SHOW_SECONDS, self._show_new, immediate=False)

    async def _subscribe(self) -> None:
        """Listen to the bus; anew when it was lost."""
        await self._subscriptions.aclose()
        wanted = PUBLIC if self._viewer.has_accounts else (*PUBLIC, *UNATTESTED)
        bus = await self._viewer.calls.bus()
        for subject in wanted:
            subscription = await bus.subscribe(subject, self._note, limit=1)
            self._subscriptions.push_async_callback(subscription.leave, 0)
        await bus.flush()

    async def _note(self, message: BusMessage) -> None:
        try:
            read = decode(message.data, Raw)
        except RequestError:  # another team's message may have any form
            read = Envelope(payload=Raw(message.data))
        payload = bytes(read.payload)[: 4 * PAYLOAD_CHARACTERS].decode("utf-8", "replace")
        envelope = Envelope(
            payload=None,
            id=read.id,
            source=read.source,
            user=read.user,
            session_id=read.session_id,
            query_id=read.query_id,
            correlation_id=read.correlation_id,
        )
        self._seen.append(
            Seen(
                number=next(self._numbers),
                at=read.timestamp_utc or utc_now(),
                subject=message.subject,
                payload=payload[:PAYLOAD_CHARACTERS],
                envelope=envelope,
            )
        )

    def _filter(self, event: ValueChangeEventArguments[Any]) -> None:
        self._words = (event.value or "").strip()
        self._viewer.set_address(**{FILTER: self._words})
        self._show_seen()

    def _pause(self) -> None:
        self._is_paused = not self._is_paused
        self._pause_button.set_text("Go on" if self._is_paused else "Pause")
        self._pause_button.set_icon("o_play_arrow" if self._is_paused else "o_pause")
        self._show_new()

    def _hold(self, event: GenericEventArguments) -> None:
        self._is_held = event.args
        self._show_new()

    def _show_new(self) -> None:
        newest = self._seen[-1].number if self._seen else 0
        if newest == self._shown_number:
            return
        if self._is_paused or self._is_held:
            until = "go on" if self._is_paused else "leave the table"
            more = f"{newest - self._shown_number:,} more, shown when you {until}."
            self._said.set_text(more)
        else:
            self._show_seen()

    def _show_seen(self) -> None:
        words = self._words.casefold().split()
        matching = (seen for seen in reversed(self._seen) if seen.has(words))
        self._shown = list(islice(matching, MAX_SHOWN))
        self._shown_number = self._seen[-1].number if self._seen else 0
        self._said.set_text("Newest first." if self._shown else "")
        self._table.show(
            [
                {
                    "key": seen.number,
                    "at": f"{seen.at.astimezone():%H:%M:%S}.{seen.at.microsecond // 1_000:03}",
                    "subject": seen.subject,
                    "who": ", ".join(filter(None, (seen.envelope.user, seen.envelope.source))),
                    "payload": seen.payload[:ROW_CHARACTERS],
                }
                for seen in self._shown
            ]
        )
        self._table.visible = bool(self._shown)
        self._nothing.clear()
        if not self._shown:
            with self._nothing:
                hint = "Ask something, or let an agent work: what is published appears here."
                empty("o_sensors", "Nothing passes by." if not words else "Nothing matches.", hint)

    def _open(self, event: GenericEventArguments) -> None:
        # What is shown may be older than what is kept, if the page was paused.
        kept = {seen.number: seen for seen in (*self._shown, *self._seen)}
        opened = kept.get(event.args)
        if opened is None:
            raise BusError(f"This message is too long ago: the page keeps the last {MAX_KEPT}.")
        envelope = opened.envelope
        with drawer("Message", opened.subject):
            named = {
                "At": exact(opened.at),
                "Sender": envelope.source,
                "User": envelope.user,
                "Session": envelope.session_id,
                "Query": envelope.query_id,
                "Id": envelope.id,
            }
            facts({name: value for name, value in named.items() if value})
            if envelope.query_id is not None:
                of_request = [
                    seen for seen in kept.values() if seen.envelope.query_id == envelope.query_id
                ]
                of_request.sort(key=lambda seen: seen.number)
                text("h3", "The request")
                _show_waterfall(waterfall_of(of_request))
            text("h3", "Content")
            text("pre", opened.payload).classes("whole-text mono")


def waterfall_of(messages: Sequence[Seen]) -> list[WaterfallLine]:
    """The waterfall of a request, from its messages in the order in which they came.

    The parts of a streamed answer are one line. A result's line begins with its request.
    """
    lines: list[WaterfallLine] = []
    streamed: int | None = None
    for seen in messages:
        if seen.subject == subjects.RESPONSE_DELTA:
            if streamed is None:
                streamed = len(lines)
                lines.append(WaterfallLine(name="answer, streamed", begin=seen.at, end=seen.at))
            else:
                lines[streamed] = msgspec.structs.replace(lines[streamed], end=seen.at)
            continue
        asked = time_of_id(seen.envelope.correlation_id or "")
        begin = seen.at if asked is None else min(asked, seen.at)
        lines.append(WaterfallLine(name=seen.subject, begin=begin, end=seen.at))
    return sorted(lines, key=lambda line: line.begin)


def time_of_id(id_: str) -> datetime | None:
    """When an id was made, if it is a UUIDv7; None for any other."""
    try:
        made = UUID(id_)
    except ValueError:
        return None
    if made.version != UUID7:
        return None
    return datetime.fromtimestamp((made.int >> 80) / 1_000, UTC)


def _show_waterfall(lines: Sequence[WaterfallLine]) -> None:
    first = min(line.begin for line in lines)
    whole = (max(line.end for line in lines) - first).total_seconds()
    with ui.element("ol").classes("waterfall"):
        for line in lines:
            offset = (line.begin - first).total_seconds()
            duration = (line.end - line.begin).total_seconds()
            with ui.element("li"):
                text("span", line.name).classes("mono")
                took = f"{duration * 1_000:,.0f} ms" if duration else f"at {offset * 1_000:,.0f} ms"
                text("span", took).classes("quiet")
                with ui.element("div").classes("track").props("aria-hidden=true"):
                    share = 100 / whole if whole else 0
                    ui.element("div").classes("lapse").style(
                        f"margin-left: {offset * share:.2f}%; width: {duration * share:.2f}%"
                    )
