"""`local2 list`, `overview` and `growth`: look through what is remembered, and count it."""

from collections.abc import Sequence
from typing import get_args

import click
import msgspec
from rich.table import Table

from local2.cli.answers import NAME, ask_stack, show_entry, shown_time
from local2.cli.commands import asked_by_caller, command
from local2.cli.output import Output, shown, styled, uncut
from local2.client.access import ask_service, connected
from local2.protocol.browsing import (
    MAX_PAGE,
    Browse,
    BrowseAll,
    BrowsedMemory,
    BrowsedPage,
    GrowthRequest,
    RecordState,
)
from local2.protocol.envelope import Sender
from local2.protocol.memories import Kind, MemoryType, OwnerScope, SourceClass
from local2.protocol.payloads import Empty
from local2.protocol.services import (
    BROWSE,
    BROWSE_ALL,
    GROWTH,
    GROWTH_ALL,
    OVERVIEW,
    OVERVIEW_ALL,
)
from local2.settings import Settings

NO_MEMORIES = "No memories."


@command("list")
@click.argument("words", nargs=-1, help="Only memories with all of these words.")
@click.option(
    "--kind", "kinds", type=click.Choice(get_args(Kind)), multiple=True, help="Kinds. Repeatable."
)
@click.option(
    "--type",
    "types",
    type=click.Choice(get_args(MemoryType)),
    multiple=True,
    help="Memory types of facts. Repeatable.",
)
@click.option(
    "--scope",
    "scopes",
    type=click.Choice(get_args(OwnerScope)),
    multiple=True,
    help="What they belong to. Repeatable.",
)
@click.option(
    "--state",
    "states",
    type=click.Choice(get_args(RecordState)),
    multiple=True,
    default=["active"],
    help="Whether they stand. Repeatable.",
)
@click.option(
    "--source",
    "sources",
    type=click.Choice(get_args(SourceClass)),
    multiple=True,
    help="Where they come from. Repeatable.",
)
@click.option("--by", "stored_by", help="The agent that stored them.")
@click.option("--session", "session_id", help="Their session.")
@click.option("--topic", help="How their keys begin, e.g. user.")
@click.option("--since", help="Nothing from before this date or time.")
@click.option("--until", help="Nothing from after this date or time.")
@click.option("--everybody", is_flag=True, help="The memories of all users.")
@click.option("--of", "owner", help="The memories of this user.")
@click.option("--limit", type=click.IntRange(min=1), default=50, help="Maximum number.")
@click.option("--after", help="Continue after a page: its `next`.")
@asked_by_caller()
async def list_(
    settings: Settings,
    output: Output,
    *,
    words: Sequence[str],
    kinds: Sequence[Kind],
    types: Sequence[MemoryType],
    scopes: Sequence[OwnerScope],
    states: Sequence[RecordState],
    sources: Sequence[SourceClass],
    stored_by: str | None,
    session_id: str | None,
    topic: str | None,
    since: str | None,
    until: str | None,
    everybody: bool,
    owner: str | None,
    limit: int,
    after: str | None,
    caller: Sender,
) -> None:
    is_of_all = everybody or owner is not None
    request = msgspec.structs.replace(
        BrowseAll(of=owner) if is_of_all else Browse(),
        words=" ".join(words) or None,
        kinds=tuple(kinds) or None,
        types=tuple(types) or None,
        scopes=tuple(scopes) or None,
        states=tuple(states),
        sources=tuple(sources) or None,
        agent=stored_by,
        session_id=session_id,
        topic=topic,
        since=since,
        until=until,
        after=after,
    )
    memories: list[BrowsedMemory] = []
    async with connected(settings, name=NAME, user=caller.user) as bus:
        while True:
            rest = min(limit - len(memories), MAX_PAGE)
            request = msgspec.structs.replace(request, limit=rest)
            page = await (
                ask_service(bus, BROWSE_ALL, request, caller)
                if isinstance(request, BrowseAll)
                else ask_service(bus, BROWSE, request, caller)
            )
            memories += page.memories
            request = msgspec.structs.replace(request, after=page.next)
            if page.next is None or len(memories) >= limit:
                break
    output.data(BrowsedPage(memories=memories, next=page.next))
    if not memories:
        output.text(NO_MEMORIES)
    for memory in memories:
        parts = [shown_time(memory.event_time), memory.memory_type or memory.kind, memory.scope]
        if memory.state != "active":
            parts.append(memory.state)
        if is_of_all and memory.user:
            parts.append(styled(memory.user))
        parts.append(styled(memory.id, dim=True))
        label = memory.topic or memory.label
        content = f"{label}: {memory.content}" if label else memory.content
        show_entry(output, "  ".join(parts), content)
    if page.next is not None:
        output.text("There are more; use --limit to show them.")


@command()
@click.option("--everybody", is_flag=True, help="Of all users.")
@asked_by_caller()
async def overview(settings: Settings, output: Output, *, everybody: bool, caller: Sender) -> None:
    service = OVERVIEW_ALL if everybody else OVERVIEW
    found = await ask_stack(settings, service, Empty(), caller)
    output.data(found)
    if not found.counts:
        output.text(NO_MEMORIES)
        return
    table = Table("Scope", "Kind", "Stand", "Former", "Newest")
    for count in found.counts:
        numbers = f"{count.active:,}", f"{count.past:,}"
        table.add_row(count.scope, count.kind, *numbers, shown_time(count.last))
    output.table(table)
    for heading, owners in (("User", found.users), ("Agent", found.agents)):
        if owners:
            table = Table(uncut(heading), "Memories", "Newest")
            for owner in owners:
                cells = owner.name or "(no user)", f"{owner.active:,}", shown_time(owner.last)
                table.add_row(*map(shown, cells))
            output.table(table)
    if found.sessions:
        table = Table(uncut("Session used last"), "Messages", "From", "To")
        for session in found.sessions:
            times = shown_time(session.first), shown_time(session.last)
            table.add_row(*map(shown, (session.session_id, f"{session.messages:,}", *times)))
        output.table(table)


@command()
@click.option(
    "--days", type=click.IntRange(1, 366), default=30, help="Of so many days, today included."
)
@click.option("--everybody", is_flag=True, help="Of all users.")
@asked_by_caller()
async def growth(
    settings: Settings, output: Output, *, days: int, everybody: bool, caller: Sender
) -> None:
    service = GROWTH_ALL if everybody else GROWTH
    found = await ask_stack(settings, service, GrowthRequest(days=days), caller)
    output.data(found)
    if not found.days:
        output.text(f"Nothing is from the last {days} days.")
        return
    table = Table("Day (UTC)", "Kind", "Memories")
    for count in found.days:
        table.add_row(count.day.isoformat(), count.kind, f"{count.added:,}")
    output.table(table)
