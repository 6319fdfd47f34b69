"""`local2 recall`, `history` and `relations`: search, and show versions and relations."""

import click

from local2.cli.answers import INDENT, answer, data_of, parts_of_score, show_entry, shown_time
from local2.cli.commands import asked_by_caller, command, tool_arguments, words_argument
from local2.cli.output import Output, printable, styled
from local2.errors import InvalidArgumentsError, quoted
from local2.protocol.envelope import Sender
from local2.protocol.memories import Others, nothing_found
from local2.protocol.memory_tools import (
    MEMORY_HISTORY,
    RECALL,
    RELATIONS,
    ListRelations,
    MemoryHistory,
    Recall,
    RecalledItems,
    RelatedMemories,
    Versions,
)
from local2.quoting import said_by_others
from local2.settings import Settings


@command()
@tool_arguments(Recall)
@words_argument("query", "What to look for, in any words.")
@asked_by_caller(session="The current session.")
async def recall(settings: Settings, output: Output, *, args: Recall, caller: Sender) -> None:
    result = await answer(settings, RECALL, args, caller)
    recalled = data_of(result, RecalledItems, output)
    output.data(recalled)
    show_recalled(output, recalled)


def show_recalled(output: Output, recalled: RecalledItems) -> None:
    """Print what was found, after the answer that a model wrote from it."""
    if recalled.answer is not None and recalled.items:
        if recalled.answer.by_model:
            output.text(recalled.answer.text or "These results do not answer the question.")
            based_on = [
                str(number)
                for number, item in enumerate(recalled.items, start=1)
                if item.id in recalled.answer.ids
            ]
            if based_on:
                output.line(styled(f"The answer is based on {', '.join(based_on)}.", dim=True))
        else:
            output.line(styled("No model wrote an answer from these results.", dim=True))
    numbers = {item.id: number for number, item in enumerate(recalled.items, start=1)}
    for number, item in enumerate(recalled.items, start=1):
        score = styled(f"{number}. {item.score:.2f}", bold=True)
        parts = [score, shown_time(item.event_time), printable(item.source_kind)]
        if label := item.topic or item.label:
            parts.append(styled(label, fg="cyan"))
        if item.session_id:
            parts.append(styled(f"session {item.session_id}", dim=True))
        for word, id_ in (("outdated", item.outdated_by), ("contradicted", item.contradicts)):
            if id_ is not None:
                by = f" by {numbers[id_]}" if id_ in numbers else ""
                parts.append(styled(f"{word}{by}", fg="yellow"))
        show_entry(output, "  ".join(parts), item.content)
        for statement in item.later:
            by = said_by_others(statement.source_class)
            later = styled(f"{INDENT}later, {shown_time(statement.event_time)}{by}", dim=True)
            show_entry(output, later, statement.content)
        if item.explanation is not None:
            output.line(f"{INDENT}{parts_of_score(item.explanation)}")
    if not recalled.items:
        others = Others(users=recalled.other_users, homes=recalled.other_homes)
        output.text(nothing_found(recalled.reason, others))
    if recalled.rerank_used:
        output.line(styled("A reranker determined this order.", dim=True))
    if recalled.degraded and recalled.items:
        notice = f"Some memories were searched by words only: {recalled.reason}"
        output.line(styled(notice, fg="yellow"))


@command()
@tool_arguments(MemoryHistory)
@click.argument("topic_or_id", help="A topic, or the id of any version.")
@asked_by_caller()
async def history(
    settings: Settings, output: Output, *, args: MemoryHistory, caller: Sender
) -> None:
    result = await answer(settings, MEMORY_HISTORY, args, caller)
    past = data_of(result, Versions, output)
    if not past.versions:
        raise InvalidArgumentsError(
            f"There is no topic or memory {quoted(args.topic_or_id)} that you may see.",
            remedy="`local2 list` shows topics and ids.",
        )
    output.data(past)
    for version in past.versions:
        ended = styled(version.ended, dim=True) if version.ended else None
        parts = [
            ended or styled("active  ", bold=True, fg="green"),
            shown_time(version.event_time),
            styled(version.topic or version.scope, fg="cyan"),
            styled(version.id, dim=True),
        ]
        if version.agent:
            parts.append(styled(f"by {version.agent}", dim=True))
        if version.retired_at:
            parts.append(styled(f"until {shown_time(version.retired_at)}", dim=True))
        show_entry(output, "  ".join(parts), version.content)
    if older := past.total - len(past.versions):
        output.text(f"{older} older versions are left out.")


@command()
@tool_arguments(ListRelations)
@click.argument("id", help="The memory's id.")
@asked_by_caller()
async def relations(
    settings: Settings, output: Output, *, args: ListRelations, caller: Sender
) -> None:
    result = await answer(settings, RELATIONS, args, caller)
    found = data_of(result, RelatedMemories, output)
    output.data(found)
    for related in found.relations:
        type_ = styled(related.type, bold=True)
        parts = [
            f"it {type_} this" if related.incoming else f"this {type_}",
            shown_time(related.event_time),
            styled(related.id, dim=True),
        ]
        if not related.active:
            parts.append(styled("retired", dim=True))
        show_entry(output, "  ".join(parts), related.content)
    if not found.relations:
        output.text(result.content)
