"""Ask the memory within a deadline, and turn its answers into a context for the model's prompt.

A context is wrapped in an XML element. So it is recognised and removed when a client repeats it in
a prompt or an answer, and never becomes a memory.
"""

import os
import re
from collections.abc import Mapping, Sequence
from contextlib import suppress
from datetime import timedelta
from importlib import import_module
from typing import NamedTuple

import msgspec

from local2.home import CLIENTS_LOCK, running_url
from local2.hooks.state import Session, Situation
from local2.hooks.wire import Wire, WireRequest
from local2.prompt_context import (
    FOREWORD,
    MAX_QUERY_CHARACTERS,
    MEMORY_SECTION,
    RECALLED_SECTION,
    SEARCHED_ITEMS,
    recalled_lines,
)
from local2.protocol.envelope import decode, encode, seal, utc_now
from local2.protocol.memory_tools import RecalledItems, SessionContent, TopMemories
from local2.protocol.payloads import Json, ToolRequest, ToolResult
from local2.protocol.subjects import tool_request
from local2.quoting import TOP_MEMORIES_SECTION, memory_line, note_line, section

MAX_CONTEXT_CHARACTERS = 10_000
"""Maximum characters of a context with everything in it. Each of its sections has bounds of its
own, but together they would displace much of what the model is working on."""
_ELEMENT = re.compile(rf"<{MEMORY_SECTION}>.*?</{MEMORY_SECTION}>\s*", re.DOTALL)
LEFT_OUT = "[… further lines left out …]"


class Section(NamedTuple):
    """A part of a context. `newest_last`: if not all lines fit, the first are left out.

    `ids`: of the memories that the lines quote, one for each.
    """

    name: str
    lines: Sequence[str]
    newest_last: bool = False
    ids: Sequence[str] = ()


class ContextReader:
    """Asks the memory on behalf of one session of a client."""

    def __init__(self, situation: Situation, agent: str, session_id: str) -> None:
        self._situation = situation
        self._agent = agent
        self._session_id = session_id
        self._credentials = situation.credentials()
        if self._credentials is not None:
            import_module("nkeys")  # slow: before the time to ask is measured
        self.problems: dict[str, str] = {}
        """The tools that failed, or whose replies were late though others' were not, and why."""

    def read(self, session: Session, query: str | None, *, within: float) -> str | None:
        """Read a context: the results of the query and, once per session, the top memories.

        Raises:
            BusError: No stack runs, or it answers nothing within `within` seconds.
        """
        calls: dict[str, Json] = {}
        if not session.reminded:
            calls = {"top_memories": {}, "load_session": {"limit": 0}}
        if query is not None:
            calls["recall"] = {
                "query": query[:MAX_QUERY_CHARACTERS],
                "top_k": SEARCHED_ITEMS,
                "continues": True,
                "enable_rerank": False,
            }
        results = self._ask(calls, None if query is None else session.query_id, within)
        session.reminded = session.reminded or "top_memories" in results
        sections = []
        if "top_memories" in results:
            top = msgspec.convert(results["top_memories"].data, TopMemories).memories
            ids = [memory.id for memory in top]
            lines = list(map(memory_line, top))
            sections.append(Section(TOP_MEMORIES_SECTION, lines, ids=ids))
        if "load_session" in results:
            notes = msgspec.convert(results["load_session"].data, SessionContent).notes
            sections.append(Section("notes", list(map(note_line, notes)), newest_last=True))
        if query is not None and "recall" in results:
            found = msgspec.convert(results["recall"].data, RecalledItems).items
            in_context = None if session.compacted else self._session_id
            lines_by_id = recalled_lines(query, found, in_context)
            sections.append(
                Section(RECALLED_SECTION, list(lines_by_id.values()), ids=list(lines_by_id))
            )
        context = join_context(sections)
        shown = [  # the context may lack some of the lines
            id_
            for part in sections
            for line, id_ in zip(part.lines, part.ids, strict=False)
            if line in (context or "")
        ]
        session.shown = [*session.shown, *shown]
        return context

    def _ask(
        self, calls: Mapping[str, Json], query_id: str | None, within: float
    ) -> dict[str, ToolResult]:
        """Call tools; return the results that arrive in time, by tool, and note the problems."""
        settings = self._situation.settings
        url = running_url(settings)
        with suppress(OSError):  # the file does not exist for a stack elsewhere
            os.utime(settings.memory.data_dir / CLIENTS_LOCK)
        requests = []
        for tool, args in calls.items():
            request = seal(
                ToolRequest(args=args),
                type="request",
                source=self._agent,
                user=self._situation.user,
                session_id=self._session_id,
                query_id=query_id,
                deadline_utc=utc_now() + timedelta(seconds=within),
            )
            requests.append(WireRequest(tool_request(tool), encode(request)))
        with Wire(url, self._credentials, within=within) as wire:
            answers = wire.ask(requests)
        results = {
            tool: decode(answer, ToolResult).payload
            for tool, answer in zip(calls, answers, strict=True)
            if answer is not None
        }
        self.problems = {tool: "no reply in time" for tool in calls if tool not in results}
        self.problems |= {tool: found.outcome for tool, found in results.items() if not found.ok}
        return {tool: result for tool, result in results.items() if result.ok}


def join_context(sections: Sequence[Section]) -> str | None:
    """Join the sections that have lines in one element; return None if none has.

    Where they exceed MAX_CONTEXT_CHARACTERS, each section gets an equal share, and what a short
    section does not need goes to longer ones.
    """
    filled = [part for part in sections if part.lines]
    if not filled:
        return None
    empty = [section(part.name, []) for part in filled]
    room = MAX_CONTEXT_CHARACTERS - len(section(MEMORY_SECTION, [FOREWORD, *empty]))
    fitting: dict[str, str] = {}
    for number, part in enumerate(sorted(filled, key=lambda part: _size(part.lines))):
        lines = _fit_lines(part, room // (len(filled) - number))
        fitting[part.name] = section(part.name, lines)
        room -= _size(lines)
    return section(MEMORY_SECTION, [FOREWORD, *(fitting[part.name] for part in filled)])


def _size(lines: Sequence[str]) -> int:
    return sum(len(line) + 1 for line in lines)


def _fit_lines(part: Section, room: int) -> list[str]:
    """Leave out the least important whole lines: a cut one would lose who said it."""
    if _size(part.lines) <= room:
        return list(part.lines)
    kept: list[str] = []
    room -= _size([LEFT_OUT])
    for line in reversed(part.lines) if part.newest_last else part.lines:
        room -= len(line) + 1
        if room < 0:
            break
        kept.append(line)
    return [LEFT_OUT, *reversed(kept)] if part.newest_last else [*kept, LEFT_OUT]


def without_contexts(text: str) -> str:
    """Remove the contexts that hooks have added, so that none is stored as if it had been said."""
    return _ELEMENT.sub("", text).strip()
