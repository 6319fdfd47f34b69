"""Facts: stored once, visible to those they belong to, replaced by topic, and kept in history."""

import json
from typing import Any

import pytest

from calling import caller_named
from ledgers import unjudged
from local2.errors import InvalidArgumentsError
from local2.ledger.engines.sqlite.database import Database
from local2.ledger.records import Fact, Written
from local2.memory.service import MemoryService
from local2.memory.tenant import Memory
from local2.protocol.envelope import Caller
from local2.protocol.memories import OwnerScope
from local2.protocol.payloads import MemoryChange
from recalling import chat_message, recall
from stored import select

EDITOR = "user.editor"
SCOPES: tuple[OwnerScope, ...] = ("user", "agent", "tenant")


async def remember(service: MemoryService, content: str, **fields: Any) -> Written:
    return await service.facts.store(Fact(**{"content": content, "scope": "user", **fields}))


async def audit(database: Database) -> list[tuple[str, str]]:
    """Return the retired records and their successors, in order."""
    found = await select(database, "SELECT record_id, detail FROM audit ORDER BY row")
    return [(record_id, json.loads(detail)["superseded_by"]) for record_id, detail in found]


async def history(service: MemoryService, topic_or_id: str) -> list[str]:
    return [record.content for record in await service.facts.history(topic_or_id)]


@pytest.mark.parametrize("scope", SCOPES)
async def test_a_fact_is_remembered_once_in_a_scope(
    memory: Memory,
    richard: MemoryService,
    announced: list[tuple[str, MemoryChange]],
    scope: OwnerScope,
) -> None:
    first = await remember(richard, "Prefers dark mode.", scope=scope)
    again = await remember(richard, "Prefers dark mode.", scope=scope)

    assert (first.was_new, again.was_new) == (True, False)
    assert again.id == first.id
    assert (await memory.ledger.counts()).records == 1
    assert announced == [
        ("memory.saved", MemoryChange(id=first.id, kind="fact", memory_type="fact"))
    ]


async def test_the_same_words_in_another_scope_or_for_another_identity_are_another_fact(
    memory: Memory, richard: MemoryService, eve: MemoryService
) -> None:
    written = [
        await remember(service, "Prefers dark mode.", scope=scope)
        for service in (richard, eve)
        for scope in SCOPES
    ]

    assert [one.was_new for one in written] == [True, True, True, True, True, False]
    assert (await memory.ledger.counts()).records == 5


async def test_another_session_or_agent_does_not_make_it_another_fact_of_the_user(
    memory: Memory, richard: MemoryService
) -> None:
    first = await remember(richard, "Prefers dark mode.")
    in_other_session = memory.of(caller_named("richard", agent="robot", session_id="s2"))

    assert await remember(in_other_session, "Prefers dark mode.") == Written(
        id=first.id, was_new=False
    )


@pytest.mark.parametrize(
    ("scope", "seen_by"),
    [
        ("user", {("richard", "shell"), ("richard", "robot")}),
        ("agent", {("richard", "shell"), ("eve", "shell")}),
        ("tenant", {(u, a) for u in ("richard", "eve") for a in ("shell", "robot")}),
    ],
)
async def test_a_fact_is_recalled_only_by_those_it_belongs_to(
    memory: Memory, richard: MemoryService, scope: OwnerScope, seen_by: set[tuple[str, str]]
) -> None:
    await remember(richard, "Prefers dark mode.", scope=scope)

    seen = set()
    for user in ("richard", "eve"):
        for agent in ("shell", "robot"):
            service = memory.of(caller_named(user, agent=agent, session_id="s9"))
            if await recall(service, "dark mode"):
                seen.add((user, agent))
    assert seen == seen_by


@pytest.mark.parametrize(
    ("scope", "caller", "lacks"),
    [
        ("user", caller_named(None, agent="shell"), "user"),
        ("agent", caller_named("richard"), "source"),
    ],
)
async def test_a_fact_without_the_identity_of_its_scope_is_refused(
    memory: Memory, scope: OwnerScope, caller: Caller, lacks: str
) -> None:
    with pytest.raises(InvalidArgumentsError, match=f"has no {lacks}"):
        await remember(memory.of(caller), "Prefers dark mode.", scope=scope)
    assert (await memory.ledger.counts()).records == 0


async def test_a_caller_of_another_tenant_is_refused(memory: Memory) -> None:
    with pytest.raises(InvalidArgumentsError, match="tenant 'other' is not served"):
        memory.of(Caller(tenant="other"))


async def test_a_newer_fact_of_the_topic_replaces_the_older_one(
    richard: MemoryService, database: Database, announced: list[tuple[str, MemoryChange]]
) -> None:
    old = await remember(richard, "Edits with Vim.", topic=EDITOR)
    new = await remember(richard, "Edits with Emacs.", topic=EDITOR)

    assert (new.was_new, new.superseded) == (True, old.id)
    assert await recall(richard, "edits Vim Emacs") == ["Edits with Emacs."]
    assert await audit(database) == [(old.id, new.id)]
    change = MemoryChange(id=old.id, kind="fact", topic=EDITOR, superseded_by=new.id)
    assert announced[-1] == ("memory.superseded", change)


async def test_every_fact_that_a_new_one_replaces_is_announced(
    richard: MemoryService, database: Database, announced: list[tuple[str, MemoryChange]]
) -> None:
    """It replaces the older value of the topic, and the same words without a topic."""
    older = await remember(richard, "Edits with Vim.", topic=EDITOR)
    plain = await remember(richard, "Edits with Emacs.")
    new = await remember(richard, "Edits with Emacs.", topic=EDITOR)

    retired = [c.id for subject, c in announced if subject == "memory.superseded"]
    assert set(await audit(database)) == {(older.id, new.id), (plain.id, new.id)}
    assert set(retired) == {older.id, plain.id}


async def test_saved_topics_and_remembered_facts_replace_each_other(
    richard: MemoryService,
) -> None:
    await richard.write_topic(EDITOR, "Vim")
    assert await richard.recall_topic(EDITOR) == "Vim"
    await remember(richard, "Emacs", topic=EDITOR)
    assert await richard.recall_topic(EDITOR) == "Emacs", "no older value is kept in memory"
    saved = await richard.facts.store_topic(EDITOR, "Emacs")
    assert not saved.was_new
    await richard.write_topic(EDITOR, "Zed")

    assert await recall(richard, "Vim Emacs Zed") == ["Zed"]
    assert await history(richard, EDITOR) == ["Zed", "Emacs", "Vim"]


@pytest.mark.parametrize("topic", ["project.deadline", "constraint.no_orms"])
async def test_topics_that_are_not_the_users_are_shared(
    richard: MemoryService, eve: MemoryService, topic: str
) -> None:
    await richard.write_topic(topic, "Friday")
    assert await eve.recall_topic(topic) == "Friday"

    await eve.write_topic(topic, "Monday")
    assert await richard.recall_topic(topic) == "Monday"


async def test_an_agents_fact_does_not_set_the_projects_topic(
    richard: MemoryService,
) -> None:
    await richard.write_topic("project.editor", "Vim")
    await remember(richard, "Emacs", topic="project.editor", scope="agent")

    assert await richard.recall_topic("project.editor") == "Vim"


@pytest.mark.parametrize("scope", ["user", "agent"])
async def test_a_shared_keys_fact_of_another_scope_is_recalled_where_there_is_no_shared_one(
    richard: MemoryService, eve: MemoryService, scope: OwnerScope
) -> None:
    await remember(richard, "Emacs", topic="project.editor", scope=scope)
    assert await richard.recall_topic("project.editor") == "Emacs"
    assert await eve.recall_topic("project.editor") is None

    await eve.write_topic("project.editor", "Vim")
    assert await richard.recall_topic("project.editor") == "Vim"


async def test_history_is_found_by_the_topic_and_by_any_versions_id(
    richard: MemoryService,
) -> None:
    written = [
        await remember(richard, f"Edits with {name}.", topic=EDITOR)
        for name in ("Ed", "Vim", "Emacs")
    ]
    await remember(richard, "Drinks tea.")
    versions = ["Edits with Emacs.", "Edits with Vim.", "Edits with Ed."]

    assert await history(richard, EDITOR) == versions
    for one in written:
        assert await history(richard, one.id) == versions


async def test_history_includes_a_fact_without_a_topic(richard: MemoryService) -> None:
    plain = await remember(richard, "Edits with Vim.")
    await remember(richard, "Edits with Vim.", topic=EDITOR)
    await remember(richard, "Edits with Emacs.", topic=EDITOR)

    versions = ["Edits with Emacs.", "Edits with Vim.", "Edits with Vim."]
    assert await history(richard, plain.id) == await history(richard, EDITOR) == versions


async def test_another_users_history_is_not_visible(
    richard: MemoryService, eve: MemoryService
) -> None:
    fact = await remember(richard, "Edits with Vim.", topic=EDITOR)
    mine = await remember(richard, "For the shell.", scope="agent")
    message = (await richard.intake.store_conversation([chat_message("I edit with Vim.")])).ids[0]
    shared = await remember(richard, "We edit with Vim.", scope="tenant", topic="project.editor")

    for secret in (EDITOR, fact.id, mine.id, message):
        assert await history(eve, secret) == []
    assert await history(eve, shared.id) == await history(eve, "project.editor")
    assert await history(eve, shared.id) == ["We edit with Vim."]


@pytest.mark.parametrize("unknown", ["user.unknown", "0123", "%", "' OR 1=1 --"])
async def test_an_unknown_topic_or_id_has_no_history(richard: MemoryService, unknown: str) -> None:
    await remember(richard, "Edits with Vim.", topic=EDITOR)

    assert await history(richard, unknown) == []


async def test_a_fact_is_stored_with_all_its_fields(memory: Memory, richard: MemoryService) -> None:
    await remember(
        richard, "Vim.", memory_type="preference", durability="core", importance=0.9, topic=EDITOR
    )

    (record,) = await richard.facts.history(EDITOR)
    assert (record.memory_type, record.durability, record.importance) == ("preference", "core", 0.9)
    assert (record.agent, record.session_id) == ("shell", "s1")
    assert await unjudged(memory.ledger) == [], "without a judge none waits for one"
