"""What several scopes were searched for, as text for a prompt: a section each, a line a memory."""

import msgspec

from local.ledger.records import class_of
from local.llm.framing import fact_line, section
from local.memory.recall.items import RecallItem, as_said
from local.memory.recall.recaller import RecallResult
from local.memory.scopes import by
from local.protocol.envelope import Caller
from local.protocol.memories import Scope

HEADINGS: dict[Scope, str] = {
    "session": "memories-of-this-session",
    "history": "memories-of-earlier-sessions",
    "user": "memories-of-the-user",
    "agent": "memories-of-the-agent",
    "tenant": "memories-for-everybody",
    "any": "memories",
}


class ScopedResults(msgspec.Struct, frozen=True, kw_only=True):
    """What each scope that was searched has, for the caller who asked."""

    caller: Caller
    scopes: dict[Scope, RecallResult]

    def text(self) -> str:
        """A section for each scope that has something; its memories are quoted, with their source.

        None of them leaves its line; empty where nothing was found.
        """
        return "\n".join(
            section(HEADINGS[scope], [self._line(item) for item in result.items])
            for scope, result in self.scopes.items()
            if result.items
        )

    def _line(self, item: RecallItem) -> str:
        record = item.record
        return fact_line(as_said(record), None, by(record, self.caller), class_of(record))
