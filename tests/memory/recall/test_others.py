"""Other users' records change neither a user's results, nor their order, nor their explanation."""

from typing import Any

import msgspec

from calling import caller_named
from indexed import indexed
from local2.memory.recall.recaller import RecallRequest
from local2.memory.service import MemoryService
from local2.memory.tenant import Memory
from recalling import chat_message

QUERIES = (
    "Which metal is the densest?",
    "osmium density",
    "When did Ann buy iridium?",
    "I bought gold. What should I do with it next?",
)
TALK = {
    "s1": ["Which metal is the densest of all?", "Only osmium.", "I weighed it last week."],
    "s2": ["I bought iridium in May.", "Gold is heavy, too.", "Sleep well."],
    "s3": ["Always answer with the density in grams.", "My scales are broken."],
}


async def everything(service: MemoryService) -> bytes:
    """Return everything that is found, with all of its score components."""
    found: list[Any] = []
    for query in QUERIES:
        for ask in (
            RecallRequest(query=query, top_k=20),
            RecallRequest(query=query, top_k=20, scope="session"),
        ):
            recalled = await service.recall(ask)
            assert not recalled.degraded
            found.append(
                [(item.record.id, item.score, item.shares, item.weight) for item in recalled.items]
            )
        found.append((await service.search_episodic(query, 20)).hits)
    return msgspec.json.encode(found)


async def test_records_of_other_users_do_not_change_a_users_results(searchable: Memory) -> None:
    richard = searchable.of(caller_named("richard", session_id="s1"))
    for session, texts in TALK.items():
        await richard.intake.store_conversation(
            [chat_message(text, name="Ann") for text in texts], session
        )
        await richard.write_episodic(" ".join(texts))
    await indexed(searchable)
    before = await everything(richard)

    eve = searchable.of(caller_named("eve", session_id="s1"))
    near = [text for texts in TALK.values() for text in texts]
    far = [f"Number {n} of the tax forms." for n in range(50)]
    copies = [f"{text} {n}" for n in range(10) for text in near]
    await eve.intake.store_conversation(
        [chat_message(text, name="Ann") for text in (*near, *copies, *far)], "s1"
    )
    for text in (*near, *far[:20]):
        await eve.write_episodic(text)
    await indexed(searchable, within=60)

    assert await everything(richard) == before
