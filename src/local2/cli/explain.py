"""`local2 explain`: why a question finds some memories, and not another one."""

import click

from local2.cli.answers import INDENT, ask_stack, parts_of_score, show_entry, shown_time
from local2.cli.commands import asked_by_caller, command, tool_arguments
from local2.cli.output import Output, styled
from local2.errors import InvalidArgumentsError, quoted
from local2.protocol.envelope import Sender
from local2.protocol.explaining import Explain, ExplainedMemory
from local2.protocol.memory_tools import Recall
from local2.protocol.services import EXPLAIN
from local2.settings import Settings


@command()
@tool_arguments(Recall, without=("synthesize", "explain"))
@click.argument("id", required=False, help="A memory to explain, wherever it ended up.")
@click.option(
    "--considered", type=click.IntRange(0, 100), default=20, help="How many memories to explain."
)
@asked_by_caller(session="The current session.")
async def explain(
    settings: Settings,
    output: Output,
    *,
    args: Recall,
    id: str | None,  # noqa: A002 - as the argument is called
    considered: int,
    caller: Sender,
) -> None:
    asked = Explain(recall=args, id=id, considered=considered)
    explained = await ask_stack(settings, EXPLAIN, asked, caller)
    if explained.asked is not None and explained.asked.outcome == "not_visible":
        raise InvalidArgumentsError(
            f"There is no memory {quoted(explained.asked.id)} that you may see.",
            remedy="`local2 list` shows ids.",
        )
    output.data(explained)
    for memory in explained.memories:
        _show(output, memory)
    if explained.asked is not None:
        output.line(styled("Asked about:", bold=True))
        _show(output, explained.asked)
    output.line(
        styled(f"{explained.matching:,} of {explained.candidates:,} candidates match.", dim=True)
    )
    if explained.degraded:
        output.line(styled(f"The search was incomplete: {explained.reason}", fg="yellow"))


def _show(output: Output, memory: ExplainedMemory) -> None:
    score = "" if memory.score is None else f" {memory.score:.2f}"
    place = "-" if memory.place is None else f"{memory.place}."
    head = [styled(f"{place}{score}", bold=memory.place is not None)]
    if memory.event_time is not None:
        head.append(shown_time(memory.event_time))
    if label := memory.topic or memory.label:
        head.append(styled(label, fg="cyan"))
    head.append(styled(memory.id, dim=True))
    show_entry(output, "  ".join(head), memory.content)
    output.line(f"{INDENT}{memory.reasons()}")
    if memory.explanation is not None:
        output.line(f"{INDENT}{parts_of_score(memory.explanation)}")
