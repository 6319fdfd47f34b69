"""Turn the results of several scopes into text for prompts: sections of one line per memory."""

import msgspec

from local2.ledger.records import source_class_of
from local2.llm.framing import fact_line, section, with_later
from local2.memory.recall.items import RecallItem, labelled_text
from local2.memory.recall.recaller import RecallResult
from local2.memory.scopes import stated_by
from local2.protocol.envelope import Caller
from local2.protocol.memories import Scope

HEADINGS: dict[Scope, str] = {
    "session": "memories-of-this-session",
    "history": "memories-of-earlier-sessions",
    "user": "memories-of-the-user",
    "agent": "memories-of-the-agent",
    "tenant": "memories-for-everybody",
    "any": "memories",
}


class ScopedResults(msgspec.Struct, frozen=True, kw_only=True):
    """The results of a search in several scopes."""

    caller: Caller
    scopes: dict[Scope, RecallResult]

    def text(self) -> str:
        """Return a section for each scope with results; empty if nothing was found.

        Each memory is quoted with its source and what was said later, and never takes more than one
        line.
        """
        return "\n".join(
            section(HEADINGS[scope], [self._line(item) for item in result.items])
            for scope, result in self.scopes.items()
            if result.items
        )

    def _line(self, item: RecallItem) -> str:
        record = item.record
        by = stated_by(record, self.caller)
        fact = fact_line(labelled_text(record), None, by, source_class_of(record))
        return with_later(fact, [(one.event_time, one.content) for one in item.later])
