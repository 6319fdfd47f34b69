"""What a caller should know at the start of each turn, without a question: what matters most.

That is facts, instructions and preferences, standing ones too, that are important or made to last.
"""

import math
from collections.abc import Sequence
from itertools import chain

import msgspec

from local.ledger.records import Record, class_of
from local.ledger.sessions import Important
from local.llm.framing import fact_line, section
from local.memory.scopes import by, own_places
from local.protocol.answers import TopMemory
from local.protocol.envelope import Caller
from local.protocol.memories import MemoryType
from local.settings import MemorySettings

TYPES: tuple[MemoryType, ...] = ("fact", "instruction", "preference")
SHARED_PART = 2
"""Half of them may be those of an agent or of everybody."""
SECTION = "pre-seeded-memories"


class TopMemories(msgspec.Struct, frozen=True, kw_only=True):
    """The user's own first, the most important ones first."""

    memories: list[TopMemory]

    def section(self) -> str:
        """The memories as a part of a prompt, each a line that it cannot leave; empty for none."""
        lines = [
            fact_line(each.content, each.topic, each.by, each.source_class)
            for each in self.memories
        ]
        return section(SECTION, lines) if lines else ""


class Selection:
    """Which facts a caller should know, as the settings say."""

    def __init__(self, caller: Caller, settings: MemorySettings) -> None:
        self._caller = caller
        self._settings = settings

    @property
    def wanted(self) -> list[Important]:
        """The user's own facts, and then those that others state, too, which have their share."""
        count, least = self._settings.preseed_count, self._settings.preseed_importance
        whose = own_places(self._caller)
        own = tuple(each for each in whose if each[0] == "user")
        shared = tuple(each for each in whose if each[0] != "user")
        return [
            Important(whose=own, types=TYPES, least=least, limit=count),
            Important(whose=shared, types=TYPES, least=least, limit=math.ceil(count / SHARED_PART)),
        ]

    def chosen(self, facts: Sequence[Sequence[Record]]) -> list[TopMemory]:
        """As many of what was found as are wanted."""
        found = chain.from_iterable(facts)
        return [_shown(one, self._caller) for one in found][: self._settings.preseed_count]


def _shown(record: Record, caller: Caller) -> TopMemory:
    return TopMemory(
        id=record.id,
        content=record.content,
        importance=record.importance,
        event_time=record.event_time,
        scope=record.scope,
        by=by(record, caller),
        source_class=class_of(record),
        topic=record.topic,
    )
