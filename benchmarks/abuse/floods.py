"""Floods: more requests at once than anybody should send, each flood by separate users."""

import asyncio
from collections.abc import Awaitable, Callable, Iterable
from contextlib import suppress

import msgspec
from nats.aio.msg import Msg

from abuse.garbled import garbled
from abuse.target import Abuse, Claim, Target, envelope, turn
from abuse.worst import repeated
from harness.texts import notes
from local2.protocol import subjects
from local2.protocol.envelope import decode
from local2.protocol.payloads import Generation, ToolResult

LARGE_TURNS = 300
LARGE_TURN = 870_000
SMALL_TURNS = 3_000
USERS = 50
SAVES = 2_000
RECALLS = 2_000
ARRIVING = 16
"""Number of messages that arrive at once, each with a recall."""
PEOPLE = "Ada", "Grace", "Emmy", "Sophie", "Lise"
GARBLED = 10_000
TOOLS = 3_000
LARGE_TOOL = 2_000
QUERIES = 600
TOLD_WITHIN = 240.0
"""Seconds in which accepted queries are answered, a few at a time."""
MESSAGES = 10_000
DOCUMENT = 800_000
PROSE = "I moved from Bern to Basel in May, and my name is Ada. "


async def large_turns(target: Target) -> Claim:
    """Publish a backlog of 261 MB."""
    ids = [f"large{n}" for n in range(target.count(LARGE_TURNS))]
    answer = repeated(PROSE, LARGE_TURN)

    async def publish(query_id: str) -> bool:
        data = turn("large", query_id, f"Question {query_id}?", answer)
        return await target.stored(subjects.RESPONSE_GENERATION, data) is not None

    acknowledged = await chosen(ids, publish)

    async def missing() -> int:
        return len(acknowledged - await target.kept.turns("large", length=len(answer)))

    return Claim(len(ids), len(acknowledged), missing)


async def small_turns(target: Target) -> Claim:
    ids = [f"small{n}" for n in range(target.count(SMALL_TURNS))]

    async def publish(query_id: str) -> bool:
        user = f"small{int(query_id.removeprefix('small')) % USERS}"
        data = turn(user, query_id, f"What is {query_id}?", f"{query_id} is a small turn.")
        return await target.stored(subjects.RESPONSE_GENERATION, data) is not None

    acknowledged = await chosen(ids, publish)

    async def missing() -> int:
        return len(acknowledged - await target.kept.turns("small*"))

    return Claim(len(ids), len(acknowledged), missing)


async def saves(target: Target) -> Claim:
    texts = notes(target.count(SAVES), seed=11, words=(10, 40))

    async def save(text: str) -> bool:
        return succeeded(await target.ask("save_memory", "saving", content=text))

    acknowledged = await chosen(texts, save)

    async def missing() -> int:
        return len(acknowledged - await target.kept.contents("saving", "note"))

    return Claim(len(texts), len(acknowledged), missing)


async def recalls(target: Target) -> Claim:
    """Recall as the user with the saves."""
    questions = [f"Who moved dashboard {n}?" for n in range(target.count(RECALLS))]

    async def recall(question: str) -> bool:
        return succeeded(await target.ask("recall", "saving", query=question))

    return Claim(len(questions), len(await chosen(questions, recall)), nothing_missing)


async def recalls_while_messages_arrive(target: Target) -> Claim:
    """Recall as the user whose messages are being ingested; no answer may be `internal`."""
    said = [f"{PEOPLE[n % len(PEOPLE)]} moved to Basel on day {n}." for n in range(RECALLS)]
    said = said[: target.count(RECALLS)]
    stored, failed, waiting = set[str](), list[str](), iter(said)

    async def ingest_and_recall() -> None:
        for text in waiting:
            messages = [{"role": "user", "content": text}]
            ingested, recalled = await asyncio.gather(
                target.ask("ingest", "arriving", messages=messages),
                target.ask("recall", "arriving", query=f"Where does {text.split()[0]} live?"),
            )
            stored.update([text] if succeeded(ingested) else [])
            failed.extend([text] if recalled is None or recalled.outcome == "internal" else [])

    await asyncio.gather(*(ingest_and_recall() for _ in range(ARRIVING)))

    async def missing() -> int:
        there = await target.kept.contents("arriving", "chat_message")
        return len(stored - there) + len(failed)

    return Claim(2 * len(said), len(stored), missing)


async def garbled_messages(target: Target) -> Claim:
    """Send garbled messages: those that JetStream acknowledges become dead letters."""
    acknowledged: set[int] = set()

    async def send(subject: str, data: bytes, *, is_stored: bool) -> None:
        if not is_stored:
            await target.client.publish(subject, data)
        elif number := await target.stored(subject, data):
            acknowledged.add(number)

    messages = list(garbled(target.count(GARBLED)))
    await asyncio.gather(*(send(s, data, is_stored=stored) for s, data, stored in messages))
    await target.client.flush(timeout=60)

    async def missing() -> int:
        return len(acknowledged - await target.letters())

    return Claim(len(messages), len(acknowledged), missing)


async def tiny_tools(target: Target) -> Claim:
    """Announce tiny tools, which nothing acknowledges."""
    number = target.count(TOOLS)
    for n in range(number):
        tool = {"name": f"tiny{n}", "description": "Does nothing.", "parameters": {}}
        await target.client.publish(subjects.TOOL_SCHEMA, msgspec.json.encode(tool))
    await target.client.flush(timeout=60)
    return Claim(number, 0, nothing_missing)


async def large_tools_and_queries(target: Target) -> Claim:
    """Announce tools of 2 kB, then ask queries, each of which is offered as many as fit."""
    since = target.log.stat().st_size
    number, queries = target.count(TOOLS), target.count(QUERIES)
    for n in range(number):
        tool = {"name": f"large{n}", "description": repeated(PROSE, LARGE_TOOL), "parameters": {}}
        await target.client.publish(subjects.TOOL_SCHEMA, msgspec.json.encode(tool))
    await target.client.flush(timeout=60)
    ids = [f"tooled{n}" for n in range(queries)]
    told: set[str] = set()
    one_told = asyncio.Event()

    async def note(message: Msg) -> None:
        told.add(decode(message.data, Generation).payload.query_id or "")
        one_told.set()

    async def ask(query_id: str) -> bool:
        query = {"query": f"What is {query_id}?", "query_id": query_id, "session_id": query_id}
        return succeeded(await target.request(subjects.QUERY_RECEIVED, envelope("asking", query)))

    listening = await target.client.subscribe(subjects.RESPONSE_GENERATION, cb=note)
    accepted = await chosen(ids, ask)
    with suppress(TimeoutError):
        async with asyncio.timeout(TOLD_WITHIN):
            while accepted - told:
                one_told.clear()
                await one_told.wait()
    await listening.unsubscribe()

    async def missing() -> int:
        """Count turns that were not told or stored; a lease that was lost counts as one."""
        lost = b"lease_lost" in target.log.read_bytes()[since:]
        stored = await target.kept.copies_of_turns("asking")
        return len(accepted - (told & stored.keys())) + lost

    return Claim(number + queries, len(accepted), missing)


async def conversation_and_document(target: Target) -> Claim:
    """Ingest a conversation twice in a row while a document is added."""
    said = [f"Number {n} of many." for n in range(target.count(MESSAGES))]
    text = "\n\n".join(notes(DOCUMENT // 80, seed=12, words=(10, 16)))
    text = text[: target.count(DOCUMENT)]
    messages = [{"role": "user", "content": text} for text in said]
    request = envelope("telling", {"args": {"messages": messages}})

    async def ingest() -> int:
        asked = [await target.request(subjects.tool_request("ingest"), request) for _ in range(2)]
        return sum(map(succeeded, asked))

    times, added = await asyncio.gather(
        ingest(), target.ask("add_document", "telling", content=text, title="Flooded")
    )
    chunks = added.data["chunks"] if added and succeeded(added) else 0

    async def missing() -> int:
        there = await target.kept.contents("telling", "chat_message")
        lost = len(set(said) - there) if times else 0
        return lost + max(0, chunks - await target.kept.chunks("Flooded"))

    return Claim(2 * len(said) + 1, times * len(said) + (chunks > 0), missing)


async def chosen(items: Iterable[str], work: Callable[[str], Awaitable[bool]]) -> set[str]:
    """Run the work for all items at once; return those for which it succeeds."""
    every = list(items)
    succeeding = await asyncio.gather(*map(work, every))
    return {item for item, success in zip(every, succeeding, strict=True) if success}


def succeeded(result: ToolResult | None) -> bool:
    return result is not None and result.ok


async def nothing_missing() -> int:
    return 0


FLOODS = (
    Abuse("turns of 870 kB at once", large_turns),
    Abuse("small turns at once, of 50 users", small_turns),
    Abuse("save_memory at once, one user", saves),
    Abuse("recall at once, one user", recalls),
    Abuse("recall while messages arrive, one user", recalls_while_messages_arrive),
    Abuse("garbled messages on every subject", garbled_messages),
    Abuse("tiny tools announced", tiny_tools),
    Abuse("tools of 2 kB announced, queries at once", large_tools_and_queries),
    Abuse("a conversation twice, a document", conversation_and_document),
)
