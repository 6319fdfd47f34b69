"""The worst input for all code that reads text: what each case reads, repeated up to a size.

The abuse benchmark runs it with 1 MB. The tests run it with less and with ten times that: code that
takes ten times as long for ten times the text does not block anybody for minutes.
"""

from collections import deque
from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from typing import Any, NamedTuple

import msgspec

from local2.conversation.context import estimate, estimate_tokens
from local2.conversation.fitting import shorten
from local2.conversation.message import Message
from local2.conversation.summaries import extract_sentences as summary_of
from local2.errors import Local2Error
from local2.language.features import features
from local2.language.triplets import extract_facts as facts_of
from local2.language.words import stems, words
from local2.language.writings import other_writings
from local2.ledger.records import Shown
from local2.llm.models import ChatMessage
from local2.llm.rules import answer_to
from local2.memory.extraction.extractor import Passage, Utterance
from local2.memory.extraction.rules import extract
from local2.memory.intake.conversations import Turn, records_of_turn
from local2.memory.intake.documents import chunks, headings
from local2.memory.intake.echoes import find_echo, unanswered_metadata
from local2.memory.recall.query import analyse
from local2.protocol.envelope import Caller
from local2.protocol.lenient.messages import messages_of
from local2.protocol.lenient.tools import read_result, read_schema
from local2.protocol.lenient.turns import read_feedback, read_generation, read_query
from local2.protocol.times import time_of

DAY = datetime(2026, 5, 2, tzinfo=UTC)
TOOLS = frozenset({"save_topic", "recall_topic", "save_memory", "search_memory"})


class Case(NamedTuple):
    """A reader and its worst texts; `on_loop`: nothing else runs meanwhile.

    `part` is the share of a size that is enough for slow cases.
    """

    name: str
    work: Callable[[str], object]
    made_of: Sequence[str]
    on_loop: bool = False
    part: float = 1.0


def repeated(unit: str, size: int) -> str:
    return (unit * (size // len(unit) + 1))[:size]


def refused(work: Callable[[str], object]) -> Callable[[str], object]:
    """Count a refusal as done: refusing takes time, too."""

    def tried(text: str) -> object:
        try:
            return work(text)
        except Local2Error as error:
            return error

    return tried


def _payload(**fields: Any) -> bytes:
    return msgspec.json.encode({"payload": fields})


def _turn_of_calls(text: str) -> object:
    """Read a turn with as many calls as fit into the text."""
    calls = [{"id": f"c{n}", "name": "weigh", "content": f"{n}"} for n in range(len(text) // 40)]
    heard = read_generation(_payload(query="Gold?", answer="Au", tool_calls=calls))
    turn = heard.envelope.payload
    remembered = Turn(query="Gold?", answer="Au", at=DAY, tool_calls=turn.tool_calls)
    return list(records_of_turn(remembered, Caller(tenant="default", user="ada")))


def _extracted(text: str) -> object:
    """Extract from a message and its answer."""
    both = [Utterance(id=role, role=role, content=text, at=DAY) for role in ("user", "assistant")]
    return extract(Passage(messages=both))


def _nested(text: str) -> object:
    """Read nested brackets."""
    half = len(text) // 2
    return refused(lambda _: read_generation(b"[" * half + b"]" * half))(text)


CASES = (
    Case("words", words, ("a ", "和。", "'", "a's ", "\u0301\u0316", "a\u0301\u0316", "İ")),
    Case("stems", lambda t: stems(words(t)), ("a ", "A is a for ", "aan'")),
    Case("analyse", lambda t: analyse(t, DAY), ("[a]: <b> ", "user.a ", "last ", "“a”", "a.")),
    Case("features", lambda t: features(t, topic=None, label=None, at=DAY),
         ("a. ", "A is a for ", "\u0301\u0316")),
    Case("other writings", lambda t: other_writings(f"aB_c-1-{t}"),
         ("x", "1", "1-", "1,", "aB", "a_", "aB-", "1aB_", "May 1, ", "0")),
    Case("echoes.read", lambda t: find_echo(t, t, [Shown(id="1", content=t)], [t]),
         ("no ", "not a ", "can't ", "a. ")),
    Case("echoes.unanswered", unanswered_metadata, ("a. ", "remember ", "[")),
    Case("rules", lambda t: answer_to([ChatMessage(role="user", content=t)], TOOLS),
         ("could you ", "\r\n", "a-", "please ", "my a'a ", "remember about ")),
    Case("rules, asked to save",
         lambda t: answer_to([ChatMessage(role="user", content=f"Remember that {t}")], TOOLS),
         ("could you ", "\r\n", "my a a'a ", "a. ", " and my ")),
    Case("extraction of facts", lambda t: list(facts_of(t, "user")),
         ("\r\n", "so ", "A is a for ", "I and ", "a.")),
    Case("extraction of items", _extracted,
         ("a. ", "- ", "\n", '"', "I am a ", "my a's ", "I have a b ", "last week I ", "```")),
    Case("summary", lambda t: summary_of([Message(role="user", content=t)], 1_000),
         ("a\n", "a. ", " ", "。")),
    Case("markdown.chunks", lambda t: list(chunks(t)), ("word ", "a", "和", "* a\n", "# a\n"),
         part=0.1),
    Case("markdown.headings", lambda t: deque(headings(t), maxlen=0),
         ("# a\n", "* a\n", "> ", "a\n=\n", "  - a\n", "[a]:\n", "```\n", "|a|\n|-|\n"),
         part=0.1),
    Case("tokens", estimate_tokens, ("a", "e\u0301", "和"), on_loop=True),
    Case("a tool's result cut",
         lambda t: shorten(Message(role="tool", content=t, tool_call_id="1"), 100, estimate),
         (" [… 1,111", "和", "a"), on_loop=True),
    Case("time", refused(lambda t: time_of(f"2026-05-01T{t}", "since")), ("1", ":0"), on_loop=True),
    Case("query", refused(lambda t: read_query(_payload(query=t, session_id=t))),
         ("a", '"', "\0"), on_loop=True),
    Case("turn", refused(lambda t: read_generation(_payload(query=t, answer=t, tool_calls=t))),
         ("a", "[", "1", '{"a":'), on_loop=True),
    Case("turn of many calls", _turn_of_calls, ("a",)),
    Case("turn of brackets", _nested, ("a",), on_loop=True),
    Case("rating", refused(lambda t: read_feedback(_payload(query_id=t, score=t))),
         ("1", "a"), on_loop=True),
    Case("tool's result", refused(lambda t: read_result(t.encode())),
         ("a", "[", "1", '{"a":'), on_loop=True),
    Case("announcement", refused(lambda t: read_schema(_payload(name=t, description=t))),
         ("a", "[", "\0"), on_loop=True),
    Case("ingested message",
         refused(lambda t: messages_of({"role": "user", "content": [{"type": t, "x": t}], t: t})),
         ("a", "["), on_loop=True),
)  # fmt: skip
"""All code that reads text written by others."""
