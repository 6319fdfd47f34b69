"""The outcome of stories as a table for a terminal."""

from collections.abc import Iterator, Sequence

from rich.table import Column, Table
from rich.text import Text

from local.stories.runner import StepResult, StoryResult

STYLES = {"passed": "green", "failed": "bold red", "skipped": "yellow"}


def table(results: Sequence[StoryResult]) -> Table:
    """One section a story, one row a step; a failed step says what came instead."""
    whole = Table("Story", "Session", "Step", "Outcome", Column("s", justify="right"))
    for result in results:
        name = result.name
        for step in result.steps:
            # Texts, since rich would read brackets in a plain string as markup.
            whole.add_row(Text(name), Text(step.session), _told(step), _outcome(step), _time(step))
            name = ""
        whole.add_section()
    return whole


def _told(step: StepResult) -> Text:
    return Text("\n").join([Text(step.step), *_details(step)])


def _details(step: StepResult) -> Iterator[Text]:
    if step.reason is not None:
        yield Text(step.reason, style="dim")
    for problem in step.problems:
        yield Text(f"expected {problem.expected}", style="red")
        yield Text(f"came     {problem.came}", style="red")


def _outcome(step: StepResult) -> Text:
    return Text(step.status, style=STYLES[step.status])


def _time(step: StepResult) -> Text:
    return Text("" if step.status == "skipped" else f"{step.seconds:.2f}")
