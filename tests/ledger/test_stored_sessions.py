"""Sessions: messages in order, notes, and important facts; and long tool outputs."""

from collections.abc import Sequence

import pytest

from ledger.conftest import OpenLedger
from ledgers import DAY, OWNER, fact, message
from local2.ledger.ledger import Ledger
from local2.ledger.operations.relations import Relation
from local2.ledger.operations.sessions import FactSelection, SessionKey, StoredSession
from local2.protocol.memories import MemoryType, OwnerScope
from local2.protocol.memory_tools import Note
from local2.protocol.payloads import OutputPart

SESSION = SessionKey(OWNER, "s1")
TYPES: tuple[MemoryType, ...] = ("fact",)
Places = tuple[tuple[OwnerScope, str], ...]


async def load(
    ledger: Ledger, limit: int = 99, important: Sequence[FactSelection] = (), **session: str
) -> StoredSession:
    key = SessionKey(**{"owner": OWNER, "session_id": "s1", **session})
    return await ledger.sessions.load(key, limit, important, lambda stored: stored)


async def test_the_newest_messages_are_returned_in_their_order(ledger: Ledger) -> None:
    await ledger.conversations.store([message(f"Message {n}.") for n in range(5)])

    session = await load(ledger, 3)
    whole = await load(ledger, 5)

    assert [one.content for one in session.messages] == ["Message 2.", "Message 3.", "Message 4."]
    assert (session.earlier, whole.earlier) == (True, False)


async def test_an_edited_message_keeps_its_place(ledger: Ledger) -> None:
    await ledger.conversations.store([message("Osmum.", id="m1"), message("Iridium.", id="m2")])
    await ledger.conversations.store([message("Osmium.", id="m1")])

    assert [one.content for one in (await load(ledger)).messages] == ["Osmium.", "Iridium."]


async def test_a_message_inserted_between_others_is_returned_there(ledger: Ledger) -> None:
    talk = [message(f"Message {n}.", id=f"m{n}") for n in range(3)]
    await ledger.conversations.store([talk[0], talk[2]])
    await ledger.conversations.store(talk)

    assert [one.id for one in (await load(ledger)).messages] == ["m0", "m1", "m2"]


async def test_a_message_is_loaded_with_all_its_fields(ledger: Ledger) -> None:
    sent = message("Hi.", label="Vera", source_ref="m1", query_id="q1", metadata={"parts": [1]})
    await ledger.conversations.store([sent])

    (loaded,) = (await load(ledger)).messages

    for name in ("id", "role", "content", "event_time", "label", "source_ref", "query_id"):
        assert getattr(loaded, name) == getattr(sent, name)
    assert loaded.metadata == sent.metadata


async def test_the_most_important_facts_are_first(ledger: Ledger) -> None:
    for content, importance in (("Tea.", 0.2), ("Vim.", 0.5), ("Rome.", 0.9), ("Oslo.", 0.9)):
        await ledger.facts.store(fact(content, importance=importance))
    await ledger.facts.store(fact("For all.", scope="tenant", owner="", importance=0.6))
    own: Places = (("user", OWNER),)
    shared: Places = (("tenant", ""), ("agent", "shell"))

    session = await load(
        ledger,
        important=[
            FactSelection(places=own, types=TYPES, least=0.5, limit=9),
            FactSelection(places=own, types=TYPES, least=0.5, limit=1),
            FactSelection(places=shared, types=TYPES, least=0.5, limit=9),
        ],
    )

    contents = [[one.content for one in facts] for facts in session.facts]
    assert contents == [["Oslo.", "Rome.", "Vim."], ["Oslo."], ["For all."]]


async def most_important(ledger: Ledger, limit: int = 9, *, standing: bool = False) -> list[str]:
    own: Places = (("user", OWNER),)
    wanted = FactSelection(
        places=own,
        types=TYPES,
        least=0.5,
        limit=limit,
        group="standing" if standing else "important",
    )
    (found,) = await ledger.sessions.important([wanted])
    return [one.content for one in found]


async def test_durable_facts_are_important_and_ordered_by_importance(
    ledger: Ledger,
) -> None:
    for content, importance in (("Tea.", 0.2), ("Vim.", 0.5), ("Rome.", 0.9)):
        await ledger.facts.store(fact(content, importance=importance))
    for content, importance in (("Allergic.", 0.3), ("Left-handed.", 0.6)):
        await ledger.facts.store(fact(content, importance=importance, durability="core"))

    assert await most_important(ledger) == ["Rome.", "Left-handed.", "Vim.", "Allergic."]
    assert await most_important(ledger, limit=2) == ["Rome.", "Left-handed."]


async def test_standing_facts_have_a_key_and_are_not_important(ledger: Ledger) -> None:
    await ledger.facts.store(fact("Tea.", importance=0.4))
    for content, importance in (("Vim.", 0.3), ("Rome.", 0.4), ("Oslo.", 0.4), ("Paris.", 0.5)):
        topic = f"user.{content[:-1]}"
        await ledger.facts.store(fact(content, importance=importance, topic=topic))
    await ledger.facts.store(fact("Allergic.", importance=0.3, topic="user.a", durability="core"))
    await ledger.facts.store(fact("A task.", importance=0.4, topic="user.b", memory_type="task"))

    assert await most_important(ledger, standing=True) == ["Oslo.", "Rome.", "Vim."]
    assert await most_important(ledger, standing=True, limit=1) == ["Oslo."]
    assert await most_important(ledger) == ["Paris.", "Allergic."]


async def test_only_facts_are_important(ledger: Ledger) -> None:
    for memory_type in (None, "fact", "task"):
        one = fact(f"A {memory_type}.", memory_type=memory_type, durability="core")
        await ledger.facts.store(one)

    assert await most_important(ledger) == ["A fact.", "A None."]


async def test_a_fact_is_no_longer_important_once_its_own_user_denied_it(ledger: Ledger) -> None:
    rome, gone = fact("Rome.", importance=0.9), message("I left Rome.")
    theirs = message("He left Rome.", owner="eve", session_id="s9")
    answered = message("You left Rome.", role="assistant")
    await ledger.facts.store(rome)
    await ledger.records.store([theirs, answered, gone])

    for one in (theirs, answered):
        await ledger.facts.relate(one.id, "contradicts", rome.id)
    assert await most_important(ledger) == ["Rome."]
    await ledger.facts.relate(gone.id, "contradicts", rome.id)
    assert await most_important(ledger) == []

    await ledger.facts.store(fact("Rome.", importance=0.9))
    assert await most_important(ledger) == ["Rome."], "it was stated again"


async def test_a_superseded_fact_is_no_longer_important(ledger: Ledger) -> None:
    older, newer = fact("Rome.", importance=0.9), fact("Oslo.", importance=0.6)
    for one in (older, newer):
        await ledger.facts.store(one)
    edge = Relation(
        source=newer.id, type="supersedes", target=older.id, agent=None, user=OWNER, at=DAY
    )
    await ledger.relations.add(edge, lambda *_: None)
    assert await most_important(ledger) == ["Oslo."]

    newest = fact("Bonn.", importance=0.6, tasks=("judge",))
    await ledger.facts.store(newest)
    rows = [(await ledger.records.chain(id_))[0] for id_ in (newest.id, newer.id)]
    await ledger.facts.judge(rows[0], replaces=[rows[1]], agent="judge")
    assert await most_important(ledger) == ["Bonn."], "what was replaced does not come back"


def no_merge(_: Sequence[Note]) -> None:
    """Merge no notes."""


async def test_a_merged_note_replaces_all_before_it(ledger: Ledger) -> None:
    def merge_two(notes: Sequence[Note]) -> Note | None:
        last = notes[-1] if len(notes) == 2 else None
        return last and Note(
            position=last.position, role="all", content="Both.", event_time=DAY, merges=2
        )

    for content in ("One.", "Two.", "Three."):
        noted = await ledger.notes.store(SESSION, "shell", content, DAY, merge=merge_two)

    assert noted.merged == 2
    assert [(one.content, one.merges) for one in noted.notes] == [("Both.", 2), ("Three.", 0)]


def part(text: str, offset: int, *, last: bool = False) -> OutputPart:
    return OutputPart(key="k1", text=text, offset=offset, last=last)


async def test_an_output_is_read_across_its_parts(open_ledger: OpenLedger) -> None:
    async with open_ledger() as of_tenant:
        ledger = of_tenant("default")
        assert await ledger.outputs.store(OWNER, part("Osmium", 0))
        assert await ledger.outputs.store(OWNER, part(" is heavy.", 6, last=True))
    async with open_ledger() as of_tenant:
        read = await of_tenant("default").outputs.read(OWNER, "k1", 3, 6)

    assert read is not None
    assert (read.text, read.total, read.complete) == ("ium is", 16, True)


async def test_parts_are_stored_in_order_and_once(ledger: Ledger) -> None:
    assert not await ledger.outputs.store(OWNER, part("later", 6))
    assert await ledger.outputs.store(OWNER, part("Osmium", 0))
    assert await ledger.outputs.store(OWNER, part("Osmium", 0)), "again"
    assert not await ledger.outputs.store(OWNER, part("Iridium", 0))
    assert await ledger.outputs.store(OWNER, part(".", 6, last=True))
    assert not await ledger.outputs.store(OWNER, part("more", 7)), "it is complete"


@pytest.mark.parametrize("offset", [6, 7, 999])
async def test_past_its_end_an_output_has_no_text(ledger: Ledger, offset: int) -> None:
    await ledger.outputs.store(OWNER, part("Osmium", 0, last=True))

    read = await ledger.outputs.read(OWNER, "k1", offset, 9)

    assert read is not None
    assert (read.text, read.total) == ("", 6)
