"""Standing facts: one active version per key, older ones in history, and every change audited."""

import pytest

from calling import caller_named
from local2.errors import InvalidArgumentsError
from local2.memory.service import MemoryService
from local2.memory.tenant import Memory
from local2.protocol.envelope import Caller
from local2.protocol.payloads import MemoryChange

LANGUAGE = "user.language_preference"


@pytest.fixture
def eve(memory: Memory) -> MemoryService:
    return memory.of(caller_named("eve"))


async def test_saving_the_same_content_again_changes_nothing(
    memory: Memory, richard: MemoryService, announced: list[tuple[str, MemoryChange]]
) -> None:
    first = await richard.facts.store_topic(LANGUAGE, "Elixir")
    again = await richard.facts.store_topic(LANGUAGE, "Elixir")

    assert (again.id, again.was_new) == (first.id, False)
    assert (await memory.ledger.counts()).records == 1
    assert len(announced) == 1


async def test_changes_are_announced_by_id_without_content(
    richard: MemoryService, announced: list[tuple[str, MemoryChange]]
) -> None:
    old = await richard.write_topic(LANGUAGE, "Elixir")
    new = await richard.write_topic(LANGUAGE, "Python")

    assert announced == [
        ("memory.saved", MemoryChange(id=old, kind="fact", topic=LANGUAGE)),
        ("memory.saved", MemoryChange(id=new, kind="fact", topic=LANGUAGE)),
        (
            "memory.superseded",
            MemoryChange(id=old, kind="fact", topic=LANGUAGE, superseded_by=new),
        ),
    ]


@pytest.mark.parametrize("topic", ["project.deadline", "constraint.no_orms"])
async def test_other_topics_are_shared(
    richard: MemoryService, eve: MemoryService, topic: str
) -> None:
    await richard.write_topic(topic, "Friday")
    assert await eve.recall_topic(topic) == "Friday"

    await eve.write_topic(topic, "Monday")
    assert await richard.recall_topic(topic) == "Monday"


@pytest.mark.parametrize("content", ["", "   ", "\n\t"])
async def test_blank_content_is_refused(richard: MemoryService, content: str) -> None:
    with pytest.raises(InvalidArgumentsError, match="blank"):
        await richard.write_topic(LANGUAGE, content)

    assert await richard.recall_topic(LANGUAGE) is None


async def test_a_bad_key_is_refused_when_saving_and_when_recalling(richard: MemoryService) -> None:
    with pytest.raises(InvalidArgumentsError, match="is not a topic key"):
        await richard.write_topic("name", "Richard")
    with pytest.raises(InvalidArgumentsError, match="is not a topic key"):
        await richard.recall_topic("name")


async def test_a_caller_of_another_tenant_is_refused(memory: Memory) -> None:
    with pytest.raises(InvalidArgumentsError, match="tenant 'other' is not served"):
        memory.of(Caller(tenant="other"))
