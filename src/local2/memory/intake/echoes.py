"""Recognise echoes: results of the memory's own tools, and answers that repeat memories.

Results of the memory's own tools are never recorded. A tool's name does not prove that it is the
memory's own, because other teams use the same names; its result does, which the memory has logged
(`memory/answer_log.py`).

Everything else is stored word for word. But a repeated question is more similar to itself than to
its answers, and its answer repeats a memory. So the memories on which an answer rests are noted as
its sources when it is stored. Whether it stands below them is decided by each search
(`recall/precedence.py`): here nobody knows what will be asked.
"""

from collections.abc import Callable, Sequence
from datetime import datetime

import msgspec

from local2.background import ITEM_READING, read_text
from local2.language.questions import without_questions
from local2.language.refusals import is_refusal
from local2.language.words import informative_stems
from local2.ledger.ledger import Ledger
from local2.ledger.records import NewRecord, Shown
from local2.memory.answer_log import AnswerLog
from local2.protocol.payloads import Json, ToolCallRecord, ToolSchema

OWN_RESULT = "answered by this memory itself"
NOT_RECORDED = "not to be recorded, as its tool says"
Announced = Callable[[str], ToolSchema | None]
"""Returns the announcement of the tool with this name, if one was received."""
RECALLED, UNANSWERED = "recalled", "unanswered"
"""Names in metadata: whether a text is an answer from memory, or its question; whether it only
asks, or only says that nothing is known."""
OF_TURNS = frozenset({"tool_calls", RECALLED, UNANSWERED})
"""Names in metadata that the memory itself fills in. They do not distinguish memories."""
COMPARED_TEXT = 20_000
"""Number of characters of a text that are compared."""
MIN_SHARED, MIN_SHARED_WORDS = 0.3, 2
"""Minimum fraction and number of words that an answer and its source have in common. The fraction
is that of the shorter of both."""


class KnownTools:
    """Knows which tools are the memory's own, and what other tools announced.

    Another team's tool may have the name of one of the memory's `own`; then the result decides.
    """

    def __init__(self, own: frozenset[str], answer_log: AnswerLog, announced: Announced) -> None:
        self.own = own
        self._answer_log = answer_log
        self._announced = announced

    def skip_reason(self, owner: str, call: ToolCallRecord) -> str | None:
        """The reason why the result of a call is not recorded, or None if it is."""
        if call.content.strip():
            shown = self._answer_log.shown_in(owner, call.name, call.content)
            is_own = shown is not None
        else:
            is_own = call.name in self.own  # an empty result shows nothing: the name decides
        if is_own:
            return OWN_RESULT
        announced = self._foreign_tool(call.name)
        recorded = call.recorded and (announced is None or announced.recorded)
        return None if recorded else NOT_RECORDED

    def may_be_own(self, tool: str, at: datetime) -> bool:
        """Whether a result may come from the memory itself, from before its log begins."""
        return tool in self.own and at < self._answer_log.since

    def reads_memory(self, tool: str) -> bool:
        """Whether a tool of another team takes its results from the memory."""
        announced = self._foreign_tool(tool)
        return announced is not None and announced.reads_memory

    def _foreign_tool(self, tool: str) -> ToolSchema | None:
        """The announcement of a tool whose name is not one of the memory's own."""
        return None if tool in self.own else self._announced(tool)


class TurnEcho(msgspec.Struct, frozen=True, kw_only=True):
    """What a turn repeats of the memory.

    `sources`: the ids of the records on which the answer is based. `shown`: of all that the results
    of the turn's calls showed. `of_question`, `of_answer`: metadata for the records of both.
    """

    sources: tuple[str, ...] = ()
    shown: tuple[str, ...] = ()
    of_question: Json = {}
    of_answer: Json = {}

    def metadata(self, record: NewRecord) -> Json:
        """The metadata for a record of the turn."""
        if record.kind == "episode":
            return self.of_episode
        return {"user": self.of_question, "assistant": self.of_answer}.get(record.role or "", {})

    @property
    def of_episode(self) -> Json:
        """The metadata for the episode, which holds both."""
        return self.of_question if self.of_question == self.of_answer else {}


class EchoFinder:
    """Compares the turns of one tenant with the memories that were shown."""

    def __init__(self, ledger: Ledger, answer_log: AnswerLog, tools: KnownTools) -> None:
        self._ledger = ledger
        self._answer_log = answer_log
        self.tools = tools

    async def find(
        self, query: str, answer: str | None, calls: Sequence[ToolCallRecord], record: NewRecord
    ) -> TurnEcho:
        """Compare a turn with the memories shown to its session. `record`: any of the turn."""
        if answer is None:
            return TurnEcho(of_question=unanswered_metadata(query))
        owner, session_id = record.owner, record.session_id
        size = size_of(calls)
        results, in_turn = await read_text(self._memory_results, size, owner, calls)
        ids = dict.fromkeys((*self._answer_log.shown_to(owner, session_id), *in_turn))
        shown: list[Shown] = []
        if ids:
            shown = await self._ledger.records.shown(
                list(ids), excluded_turn=record.turn, characters=COMPARED_TEXT
            )
        size += len(query) + len(answer) + sum(len(memory.content) for memory in shown)
        echo = await read_text(find_echo, size, query, answer, shown, results)
        return msgspec.structs.replace(echo, shown=tuple(in_turn))

    def _memory_results(
        self, owner: str, calls: Sequence[ToolCallRecord]
    ) -> tuple[list[str], dict[str, None]]:
        """The results that come from the memory, and the ids of the records they showed."""
        results = []
        ids: dict[str, None] = {}
        for call in calls:
            if (shown := self._answer_log.shown_in(owner, call.name, call.content)) is not None:
                results.append(call.content)
                ids |= dict.fromkeys(shown)
            elif self.tools.reads_memory(call.name):
                results.append(call.content)
        return results, ids


def size_of(calls: Sequence[ToolCallRecord]) -> int:
    """How many characters to read there are in calls; each has some besides its result."""
    return sum(ITEM_READING + len(call.content) for call in calls)


def find_echo(query: str, answer: str, shown: Sequence[Shown], results: Sequence[str]) -> TurnEcho:
    """Compare a turn with the memories that were shown to the agent.

    Args:
        query: The question.
        answer: The answer.
        shown: The records that the memory's tools showed.
        results: The results, as text, of these tools and of others that read the memory.
    """
    asked, answered = stems_of(query), stems_of(answer)
    added = answered - asked
    used = [memory.id for memory in shown if _rests_on(stems_of(memory.content), asked, answered)]
    if used:
        # What a user states is news, whatever was shown before.
        stated = stems_of(without_questions(query[:COMPARED_TEXT]))
        of_question: Json = {} if stated else {RECALLED: True}
        return TurnEcho(
            sources=tuple(dict.fromkeys(used)),
            of_question=of_question,
            of_answer={RECALLED: True},
        )
    if not is_refusal(answer, added.difference(*map(stems_of, results))):
        return TurnEcho()
    return TurnEcho(of_question=unanswered_metadata(query), of_answer={UNANSWERED: True})


def unanswered_metadata(query: str) -> Json:
    """The metadata of a question without an answer; empty if it also states something."""
    return {} if stems_of(without_questions(query[:COMPARED_TEXT])) else {UNANSWERED: True}


def stems_of(text: str) -> frozenset[str]:
    """The stems of the informative words of a text."""
    return informative_stems(text[:COMPARED_TEXT])


def _rests_on(source: frozenset[str], asked: frozenset[str], answered: frozenset[str]) -> bool:
    """Whether an answer is based on a source, by the words that both add to the question."""
    news, added = source - asked, answered - asked
    if not news:
        return bool(source) and source <= asked | added
    if news & added and len(answered) >= MIN_SHARED_WORDS and answered <= source:
        return True  # it says nothing else
    shared, shorter = len(news & added), min(len(news), len(added))
    return shared >= min(MIN_SHARED_WORDS, len(news)) and shared >= MIN_SHARED * shorter
