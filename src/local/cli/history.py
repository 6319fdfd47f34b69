"""`local2 history`: what a fact was before, and what replaced it."""

from rich.text import Text

from local.cli.answers import answer, data_of, show_entry, shown_time
from local.cli.output import Output, run_async
from local.protocol.envelope import Caller
from local.protocol.memories import NOTHING_FOUND, Version, Versions
from local.settings import Settings


def history(settings: Settings, output: Output, topic_or_id: str, caller: Caller) -> None:
    args = {"topic_or_id": topic_or_id}
    result = run_async(answer(settings, "memory_history", args, caller))
    found = data_of(result, Versions, output)
    output.data(found)
    if output.json:
        return
    for version in found.versions:
        show_entry(output, _head(version), version.content)
    if not found.versions:
        output.text(NOTHING_FOUND)
    if older := found.total - len(found.versions):
        output.text(f"{older} older versions are left out.")


def _head(version: Version) -> Text:
    active = version.superseded_by is None
    head = Text.assemble(
        ("active  ", "bold green") if active else ("replaced", "dim"),
        f"  {shown_time(version.event_time)}  ",
        (version.topic or version.scope, "cyan"),
        (f"  {version.id}", "dim"),
    )
    if version.agent:
        head.append(f"  by {version.agent}", style="dim")
    return head
