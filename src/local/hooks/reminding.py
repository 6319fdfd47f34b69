"""What the memory has for a model, asked for within a deadline."""

import os
from collections.abc import Callable, Mapping
from contextlib import suppress
from datetime import timedelta

from local.errors import BusError
from local.home import USED, running_url
from local.hooks.context import context_of, notes_in, recalled, what_matters
from local.hooks.log import log_problem
from local.hooks.sessions import Session
from local.hooks.situation import Situation
from local.hooks.wire import Request, Wire
from local.protocol.envelope import decode, encode, seal, utc_now
from local.protocol.payloads import Json, ToolRequest, ToolResult
from local.protocol.subjects import tool_request

RECALLED = 5
LONGEST_QUERY = 2_000
"""Characters of a prompt that are searched for."""
LEAST_RELEVANCE = 0.5
"""Share of the best item's score: what is far behind it is seldom about the prompt."""


class Reminder:
    """Asks the memory for one client, in one of its sessions."""

    def __init__(self, situation: Situation, agent: str, session_id: str) -> None:
        self._situation = situation
        self._agent = agent
        self._session_id = session_id

    def remind(self, session: Session, query: str | None, *, within: float) -> str | None:
        """A context of what is found for the query and, once a session, of what matters most.

        Raises:
            BusError: No stack runs, or it answers nothing within so many seconds.
        """
        calls: dict[str, Json] = {}
        if not session.reminded:
            calls = {"top_memories": {}, "load_session": {"limit": 0}}
        if query is not None:
            found = {"top_k": RECALLED, "min_relevance": LEAST_RELEVANCE, "enable_rerank": False}
            calls["recall"] = {"query": query[:LONGEST_QUERY], **found}
        results = self._ask(calls, within)
        session.reminded = session.reminded or "top_memories" in results
        readers: dict[str, Callable[[ToolResult], str]] = {
            "top_memories": what_matters,
            "load_session": notes_in,
            "recall": lambda result: recalled(result, self._session_id, session),
        }
        return context_of([readers[tool](result) for tool, result in results.items()])

    def _ask(self, calls: Mapping[str, Json], within: float) -> dict[str, ToolResult]:
        """What the tools answer in time, by their names; what fails is left out, and logged."""
        settings = self._situation.settings
        url = running_url(settings)
        with suppress(OSError):  # a stack elsewhere has no such file
            os.utime(settings.memory.data_dir / USED)
        requests = [self._request(tool, args, within) for tool, args in calls.items()]
        with Wire(url, self._situation.credentials(), within=within) as wire:
            answers = wire.ask(requests)
        results = {
            tool: decode(answer, ToolResult).payload
            for tool, answer in zip(calls, answers, strict=True)
            if answer is not None
        }
        for tool, result in results.items():
            if not result.ok:
                problem = BusError(f"{tool} failed: {result.outcome}.")
                log_problem(settings.memory.data_dir, self._agent, problem)
        return {tool: result for tool, result in results.items() if result.ok}

    def _request(self, tool: str, args: Json, within: float) -> Request:
        request = seal(
            ToolRequest(args=args),
            type="request",
            source=self._agent,
            user=self._situation.user,
            session_id=self._session_id,
            deadline_utc=utc_now() + timedelta(seconds=within),
        )
        return Request(tool_request(tool), encode(request))
