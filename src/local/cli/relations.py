"""`local2 relations`: what bears on a memory, and what it bears on."""

from rich.text import Text

from local.cli.answers import answer, data_of, show_entry, shown_time
from local.cli.output import Output, run_async
from local.protocol.envelope import Sender
from local.protocol.memories import RelatedMemories, RelatedMemory
from local.settings import Settings


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
