"""Answers by rules on machines without a language model (`language/chat.py` reads the messages).

It saves and recalls with the same tools as a real model, so that everything can be tried without
one. It finds with `recall` alone, and answers with the words and the date of what was found.
"""

import asyncio
import re
from collections.abc import AsyncGenerator, Collection, Iterator, Sequence
from datetime import date
from itertools import islice
from typing import Any, NamedTuple
from uuid import uuid4

from local2.language.chat import (
    Fact,
    Lookup,
    Note,
    Wish,
    is_asked,
    is_nod,
    named_tool,
    requests_in,
    wish_of,
)
from local2.llm.models import ChatChunk, ChatMessage, ToolCall, ToolDefinition
from local2.protocol.envelope import utc_now
from local2.protocol.memories import incomplete_reason
from local2.quoting import AUTHORS, TOP_MEMORIES_SECTION, quoted_line, quoted_passage

HELP = (
    "I answer by rules, without a language model: tell me “Remember that my preferred language is "
    "Elixir.”, then ask “What language do I prefer?” or “What do you remember about Elixir?”. "
    "For conversation, start Ollama with a model that calls tools, such as `ollama pull gemma4`."
)
HINT = "(No language model: I answer by rules. Try “help”.)"
"""It accompanies the first answer of a session."""
KEPT = "I will remember: {statement}"
"""The answer to a statement. It says nothing of its own, so recall ranks it last."""
NODDED = "All right."
FORGETS_NOTHING = (
    "I erase nothing in a chat. `local2 forget --help` shows how, for a topic, a session, one "
    "memory or everything; with `--dry-run`, it says what that erases."
)
NO_STANDING_FACTS = (
    "I know no standing facts about you yet. Ask me about something in particular, or tell me "
    "“Remember that my …”."
)
KNOWN = "I know:\n{memories}\nI remember what else you said, too: ask me about it."
NOTHING = "I remember nothing about that."
NOTHING_YET = "I found nothing, but I could not search everything that I remember: {reason}"

SPARE = 5
"""How many memories are asked for each that is shown: others are answers, or outdated."""
ONE = {"top_k": SPARE}
SEVERAL = {"top_k": 3 * SPARE}
"""How a question is recalled, and how everything about something is."""
MIN_RELEVANCE, SURE = 0.04, 0.28
"""Below the first, a memory does not concern the question; below the second, it may not."""
SHARE_OF_BEST = 0.6
"""Minimum relevance of a further memory that is shown, as a fraction of the best one's."""
CLOSEST = "The closest that I remember: "
ABOUT_THE_USER = "recall", {"query": "me", **SEVERAL}
"""The request that a question for everything about the user becomes."""
ENTRY = (
    r"^\d+\. \(relevance: (?P<relevance>[\d.]+)\) (?:(?P<source>.*), )?(?P<date>\d{4}-\d\d-\d\d)\n"
    r" +(?P<text>.*(?:\n   .*)*)"
)
"""An entry of the text that `recall` returns."""
LATER = (
    r"\n {3}\((?:\d+ days )?later, (?P<date>\d{4}-\d\d-\d\d)(?:, (?P<source>[^):]+))?\)"
    r" (?P<text>[^\n]+)$"
)
"""The last line of an entry: the reply that it got, or a later statement of its speaker."""
MAX_LATER = 3
"""Maximum number of such lines."""
SAID_LATER = "Later, on {day}: {text}"
BY_AN_ASSISTANT = "said by an assistant"
SAID = {"said by the user": "You said", BY_AN_ASSISTANT: "An assistant said"}
REMEMBERED = "Remembered"
REPLACED = "outdated", "contradicted"
OWN = f" [stated by {AUTHORS['self']}]"
"""What a model is told of a fact, and who asks knows."""
MAX_SHOWN = 300
"""Maximum characters of a text that is shown."""

WELCOME = "You are welcome."
ANSWERS: dict[Wish, str] = {"help": HELP, "forget": FORGETS_NOTHING, "thanks": WELCOME}
MAX_READ = 70_000
"""Number of characters read of a message: somewhat more than the limit of a memory."""
MAX_CALLS = 16
"""Maximum number of calls per reply: a pasted page may contain many questions that nobody asks."""
_Request = tuple[str, dict[str, Any]]
"""A tool and its arguments."""


class RulesModel:
    """A ChatModel that answers by rules; the same conversation always gets the same answer."""

    name = "rules"

    async def stream(
        self, messages: Sequence[ChatMessage], tools: Sequence[ToolDefinition]
    ) -> AsyncGenerator[ChatChunk, None]:
        offered = {tool.name for tool in tools}
        text, calls = await asyncio.to_thread(answer_to, messages, offered)
        for piece in re.findall(r"(?:\S+\s*){1,8}", text):
            yield ChatChunk(content=piece)
        if text and text != HELP and not any(m.role == "assistant" and m.content for m in messages):
            yield ChatChunk(hint=HINT)
        if calls:
            made = (ToolCall(id=uuid4().hex, name=name, arguments=args) for name, args in calls)
            yield ChatChunk(tool_calls=tuple(made))

    async def close(self) -> None:
        """Do nothing: there is nothing to close."""


def answer_to(
    messages: Sequence[ChatMessage], offered: Collection[str]
) -> tuple[str, list[_Request]]:
    """The answer or the tool calls, given the conversation and the names of the tools."""
    question_at = max((i for i, m in enumerate(messages) if m.role == "user"), default=None)
    if question_at is None:
        return HELP, []
    text = messages[question_at].content[:MAX_READ]
    turn = messages[question_at + 1 :]
    made = {call.id: call for message in turn for call in message.tool_calls}
    results = ((made.get(m.tool_call_id or ""), m.content) for m in turn if m.role == "tool")
    outcomes = [(call.name, call.arguments, content) for call, content in results if call]
    if outcomes:
        return _report(outcomes), []
    if (wish := wish_of(text)) is not None:
        return ANSWERS[wish], []
    tool = named_tool(text)
    if tool is not None and tool in offered:  # without arguments: no rule knows them
        calls: list[_Request] = [(tool, {})]
    else:
        calls = []
        for request in islice(requests_in(text), MAX_CALLS):
            match request:
                case Fact(topic, content):
                    calls.append(("save_topic", {"topic": topic, "content": content}))
                case Note(content):
                    calls.append(("save_memory", {"content": content}))
                case Lookup(query, is_broad):
                    calls.append(("recall", {"query": query, **(SEVERAL if is_broad else ONE)}))
    if missing := sorted({name for name, _ in calls}.difference(offered)):
        return f"For that I need {' and '.join(missing)}, which nobody offers at the moment.", []
    if calls and ABOUT_THE_USER not in calls:
        return "", calls
    answer = NODDED if is_nod(text) else KEPT.format(statement=_one_line(text))
    if calls:
        # The generator puts the most important memories into the system prompt.
        prompt = "\n".join(m.content for m in messages if m.role == "system")
        found = re.search(
            rf"<{TOP_MEMORIES_SECTION}>\n(.*?)\n</{TOP_MEMORIES_SECTION}>", prompt, re.DOTALL
        )
        answer = KNOWN.format(memories=found[1].replace(OWN, "")) if found else NO_STANDING_FACTS
    return answer, []


def _report(outcomes: Sequence[tuple[str, dict[str, Any], str]]) -> str:
    lines = []
    for tool, arguments, result in outcomes:
        if result.startswith("Error"):
            lines.append(f"{tool} failed: {result}")
        elif tool == "save_topic":
            first_line, _, _ = result.partition("\n")
            topic = first_line.removeprefix("Memory saved:").strip()
            lines.append(f"Saved: {_one_line(arguments['content'])} ({topic}).")
        elif tool == "save_memory":
            lines.append(f"Saved: {_one_line(arguments['content'])}")
        elif tool != "recall":
            lines.append(f"{tool} answered: {result.strip()}")
        else:
            best = _best(result)[: arguments["top_k"] // SPARE]
            lines += _quotations(arguments["query"], best)
    unsure = (incomplete_reason(result) for _, _, result in outcomes)
    nothing = next((NOTHING_YET.format(reason=reason) for reason in unsure if reason), NOTHING)
    # One memory may answer several questions.
    return "\n".join(dict.fromkeys(lines)) or nothing


class _Said(NamedTuple):
    """`source` tells whose words a reply is."""

    day: date
    text: str
    source: str = ""


class _Entry(NamedTuple):
    """A memory that `recall` found, and what its speaker said about the same thing later."""

    relevance: float
    source: str
    said: _Said
    later: Sequence[_Said]


def _best(result: str) -> list[_Entry]:
    """The relevant entries of a search: an assistant's only if there are no others."""
    entries = []
    for found in re.finditer(ENTRY, result, re.MULTILINE):
        text, later = found["text"], list[_Said]()
        while len(later) < MAX_LATER and (line := re.search(LATER, text)):
            try:
                day = date.fromisoformat(line["date"])
            except ValueError:  # the author's own words look like such a line
                break
            text = text[: line.start()]
            later.insert(0, _Said(day, line["text"], line["source"] or ""))
        said = _Said(date.fromisoformat(found["date"]), text)
        replies = [one for one in later if BY_AN_ASSISTANT in one.source]
        if is_request := _is_request(text):
            is_request = not replies
            said = (replies or [said])[0]
            later = [one for one in later if one != said]
        elif BY_AN_ASSISTANT not in (found["source"] or ""):  # a reply to no question says nothing
            later = [one for one in later if one not in replies]
        entry = _Entry(float(found["relevance"]), found["source"] or "", said, later)
        is_replaced = any(word in entry.source for word in REPLACED)
        if entry.relevance >= MIN_RELEVANCE and not is_replaced and not is_request:
            entries.append(entry)
    others = [entry for entry in entries if BY_AN_ASSISTANT not in entry.source]
    chosen = others or entries
    least = SHARE_OF_BEST * max((entry.relevance for entry in chosen), default=0)
    return [entry for entry in chosen if entry.relevance >= least]


def _quotations(query: str, entries: Sequence[_Entry]) -> Iterator[str]:
    """Yield the words of each entry, and of what was said later, in one line each.

    What was saved on request was also said, and is quoted once.
    """
    quoted = {entry.said for entry in entries}
    passages = list[str]()
    for relevance, source, said, later in entries:
        if any(said.text in passage for passage in passages):
            continue
        passages.append(quoted_passage(said.text, query, MAX_SHOWN))
        whose = said.source or source
        by = next((words for who, words in SAID.items() if who in whose), REMEMBERED)
        closest = "" if relevance >= SURE else CLOSEST
        yield f"{closest}{by} on {_day(said)}: {passages[-1]}"
        for statement in later:
            is_news = statement not in quoted and statement.text not in said.text
            if is_news and not _is_request(statement.text):
                quoted.add(statement)
                yield SAID_LATER.format(day=_day(statement), text=_one_line(statement.text))


def _is_request(text: str) -> bool:
    """Whether a message asks for something, and answers nothing."""
    return is_asked(text) or wish_of(text) == "forget"


def _day(said: _Said) -> str:
    year = "" if said.day.year == utc_now().year else f" {said.day.year}"
    return f"{said.day.day} {said.day:%B}{year}"


def _one_line(text: str) -> str:
    return quoted_line(text, MAX_SHOWN)
