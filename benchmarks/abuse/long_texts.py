"""The longest and worst texts that fit on the bus, each sent to a stack as one abuse."""

from typing import NamedTuple

from abuse.target import Abuse, Claim, Target, envelope
from abuse.worst import repeated
from local2.protocol import subjects

SENT = 900_000
"""Characters of a text sent over the bus, which carries 1 MB."""
PROSE = "I moved from Bern to Basel in May, and my name is Ada. "


class Sent(NamedTuple):
    """A message to a stack, and the number of records of a kind that it must leave.

    `kind` is "dead letter" where it must become one, and "" where it leaves nothing.
    """

    name: str
    subject: str
    payload: dict[str, object]
    kind: str
    records: int = 1
    answered: bool = True
    """Whether it gets a reply; otherwise it is a turn, which JetStream acknowledges."""


def sent(size: int = SENT) -> list[Sent]:
    """Return all messages, with texts of this many characters."""
    return [*_turns(size), *_requests(size)]


def _turns(size: int) -> list[Sent]:
    text = repeated(PROSE, size)
    calls = [{"id": f"c{n}", "name": "weigh", "content": f"{n} g"} for n in range(size // 50)]
    payloads: list[tuple[str, dict[str, object], str, int]] = [
        ("a turn", {"query": "Where?", "answer": text}, "episode", 1),
        ("a turn of one word", {"query": "Where?", "answer": "a" * size}, "episode", 1),
        ("a turn of accents", {"query": "?", "answer": "\u0301\u0316" * (size // 4)}, "episode", 1),
        ("a turn of calls", {"query": "?", "answer": "!", "tool_calls": calls},
         "tool_output", len(calls)),
        ("a garbled turn", {"query": None, "answer": text}, "dead letter", 1),
    ]  # fmt: skip
    subject = subjects.RESPONSE_GENERATION
    return [
        Sent(name, subject, payload, kind, records, answered=False)
        for name, payload, kind, records in payloads
    ]


def _requests(size: int) -> list[Sent]:
    text = repeated(PROSE, size)
    messages = [{"role": "user", "content": f"Number {n}"} for n in range(size // 90)]
    asked = subjects.tool_request
    return [
        Sent("a query", subjects.QUERY_RECEIVED, {"query": f"Could you remember {text}"},
             "chat_message"),
        Sent("save_memory", asked("save_memory"), {"args": {"content": text[:65_536]}}, "note"),
        Sent("search_memory", asked("search_memory"), {"args": {"query": text[:4_096]}}, ""),
        Sent("recall", asked("recall"), {"args": {"query": text[:4_096]}}, ""),
        Sent("recall, refused", asked("recall"), {"args": {"query": text}}, ""),
        Sent("ingest, one message", asked("ingest"),
             {"args": {"messages": [{"role": "user", "content": text}]}}, "chat_message"),
        Sent("ingest, many messages", asked("ingest"), {"args": {"messages": messages}},
             "chat_message", len(messages)),
        Sent("add_document", asked("add_document"),
             {"args": {"content": text[:800_000], "title": "A"}}, "document_chunk"),
        Sent("add_document, a list", asked("add_document"),
             {"args": {"content": "* a\n" * (size // 8), "title": "B"}}, "document_chunk"),
    ]  # fmt: skip


def abuse_of(one: Sent) -> Abuse:
    """Return the row of one message."""

    async def work(target: Target) -> Claim:
        user = f"text: {one.name}"
        data = envelope(user, one.payload)
        number = None
        if one.answered:
            answer = await target.request(one.subject, data)
            acknowledged = answer is not None and answer.ok
        else:
            number = await target.stored(one.subject, data)
            acknowledged = number is not None

        async def missing() -> int:
            if not acknowledged or not one.kind:
                return 0
            return max(0, one.records - await _there(target, one, user, number))

        return Claim(1, int(acknowledged), missing)

    return Abuse(f"text: {one.name}", work)


async def _there(target: Target, one: Sent, user: str, number: int | None) -> int:
    if one.kind == "dead letter":
        return int(number in await target.letters())
    if one.kind == "document_chunk":
        return await target.kept.chunks(str(one.payload["args"]["title"]))  # type: ignore[index]
    return await target.kept.records(user, one.kind)


def long_texts(part: float) -> list[Abuse]:
    """Return a row for each message, at this part of its full length."""
    return [abuse_of(one) for one in sent(round(SENT * part))]
