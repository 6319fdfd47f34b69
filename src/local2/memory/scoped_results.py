"""Turn the results of several scopes into text for prompts: sections of one line per memory."""

import msgspec

from local2.ledger.records import source_class_of
from local2.memory.recall.items import labelled_text
from local2.memory.recall.recaller import RecallResult
from local2.memory.scopes import stated_by
from local2.protocol.envelope import Caller
from local2.protocol.memories import Scope
from local2.quoting import fact_line, section, with_later

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
        """A section for each scope with results; empty if nothing was found.

        Each memory is quoted with its source and what was said later, and never takes more than one
        line.
        """
        sections = []
        for scope, result in self.scopes.items():
            lines = [
                with_later(
                    fact_line(
                        labelled_text(item.record),
                        None,
                        stated_by(item.record, self.caller),
                        source_class_of(item.record),
                    ),
                    [(later.event_time, later.content) for later in item.later],
                )
                for item in result.items
            ]
            if lines:
                sections.append(section(HEADINGS[scope], lines))
        return "\n".join(sections)
