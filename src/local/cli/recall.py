"""`local2 recall`, `history` and `relations`: search, and show versions and relations."""

from collections.abc import Sequence

from rich.padding import Padding
from rich.text import Text

from local.cli.answers import INDENT, answer, data_of, show_entry, shown_time
from local.cli.output import Output, printable, run_async
from local.home import other_homes
from local.protocol.envelope import Sender
from local.protocol.memories import (
    NOTHING_FOUND,
    Answer,
    Explanation,
    RecalledItem,
    RecalledItems,
    RelatedMemories,
    RelatedMemory,
    Version,
    Versions,
    nothing_found,
)
from local.protocol.payloads import Json
from local.settings import Settings


def search(settings: Settings, output: Output, args: Json, caller: Sender) -> None:
    result = run_async(answer(settings, "recall", args, caller))
    recalled = data_of(result, RecalledItems, output)
    output.data(recalled)
    if output.json:
        return
    _show(output, recalled)
    if not recalled.items:
        for home in other_homes(settings):
            output.text(f"(There is another memory in {home}: `local2 --home {home} recall …`.)")


def _show(output: Output, recalled: RecalledItems) -> None:
    if recalled.answer is not None and recalled.items:
        _show_answer(output, recalled.answer, recalled.items)
    for number, item in enumerate(recalled.items, start=1):
        show_entry(output, _item_head(number, item), item.content)
        if item.explanation is not None:
            components = _score_components(item.explanation)
            output.console.print(Padding(components, (0, 0, 0, len(INDENT)), expand=False))
    if not recalled.items:
        output.text(nothing_found(recalled.reason, recalled.other_users))
    if recalled.rerank_used:
        output.console.print("[dim]A reranker determined this order.[/]")
    if recalled.degraded and recalled.items:
        notice = f"Some memories were searched by words only: {recalled.reason}"
        output.console.print(Text(printable(notice), style="yellow"))


def _show_answer(output: Output, answered: Answer, items: Sequence[RecalledItem]) -> None:
    if not answered.by_model:
        output.console.print("[dim]No model wrote an answer from these results.[/]")
        return
    output.text(answered.text or "These results do not answer the question.")
    numbers = [str(n) for n, item in enumerate(items, start=1) if item.id in answered.ids]
    if numbers:
        output.console.print(f"[dim]The answer is based on {', '.join(numbers)}.[/]")


def _item_head(number: int, item: RecalledItem) -> Text:
    label = item.topic or item.label
    words = [shown_time(item.event_time), item.source_kind]
    head = Text.assemble((f"{number}. {item.score:.2f}", "bold"), "  ", "  ".join(words))
    if label:
        head.append(f"  {label}", style="cyan")
    if item.session_id:
        head.append(f"  session {item.session_id}", style="dim")
    return head


def _score_components(explanation: Explanation) -> Text:
    """Return the score components that are not zero, and the weight of the scope."""
    parts = [f"{name}={share:+.2f}" for name, share in explanation.shares.items() if share]
    return Text(" ".join([*parts, f"weight={explanation.weight:g}"]), style="dim")


def history(settings: Settings, output: Output, topic_or_id: str, caller: Sender) -> None:
    args = {"topic_or_id": topic_or_id}
    result = run_async(answer(settings, "memory_history", args, caller))
    past = data_of(result, Versions, output)
    output.data(past)
    if output.json:
        return
    for version in past.versions:
        show_entry(output, _version_head(version), version.content)
    if not past.versions:
        output.text(NOTHING_FOUND)
    if older := past.total - len(past.versions):
        output.text(f"{older} older versions are left out.")


def _version_head(version: Version) -> Text:
    head = Text.assemble(
        (version.ended, "dim") if version.ended else ("active  ", "bold green"),
        f"  {shown_time(version.event_time)}  ",
        (version.topic or version.scope, "cyan"),
        (f"  {version.id}", "dim"),
    )
    if version.agent:
        head.append(f"  by {version.agent}", style="dim")
    if version.retired_at:
        head.append(f"  until {shown_time(version.retired_at)}", style="dim")
    return head


def relations(settings: Settings, output: Output, memory_id: str, caller: Sender) -> None:
    result = run_async(answer(settings, "relations", {"id": memory_id}, caller))
    found = data_of(result, RelatedMemories, output)
    output.data(found)
    if output.json:
        return
    for one in found.relations:
        show_entry(output, _head(one), one.content)
    if not found.relations:
        output.text(result.content)


def _head(one: RelatedMemory) -> Text:
    head = Text.assemble(
        "it " if one.incoming else "this ",
        (one.type, "bold"),
        " this" if one.incoming else "",
        f"  {shown_time(one.event_time)}",
        (f"  {one.id}", "dim"),
    )
    if not one.active:
        head.append("  retired", style="dim")
    return head
