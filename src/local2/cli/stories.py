"""`local2 stories`: play stories against a live stack, and report which steps passed."""

import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import get_args

import click
from rich.table import Column, Table
from rich.text import Text

from local2.cli.answers import progress
from local2.cli.commands import PATH, command
from local2.cli.output import FAILED, Output
from local2.errors import ConfigError
from local2.logs import logging_to
from local2.settings import ChatChoice, Settings
from local2.stories.bench import Bench, FreshBench
from local2.stories.runner import StoryResult, run_story
from local2.stories.script import Story, load_story

STYLES = {"passed": "green", "failed": "bold red", "skipped": "yellow"}


@command()
@click.argument("paths", nargs=-1, type=PATH, help="Files or folders. Default: stories.")
@click.option(
    "--model",
    type=click.Choice(get_args(ChatChoice)),
    default="auto",
    help="The chat model that answers.",
)
@click.option("--nats", help="The bus of a stack to use instead of new ones.")
async def stories(
    settings: Settings,
    output: Output,
    *,
    paths: Sequence[Path],
    model: ChatChoice,
    nats: str | None,
) -> None:
    scripts: list[Story] = []
    for path in paths or [Path("stories")]:
        files = sorted(path.glob("*.yaml")) if path.is_dir() else [path]
        if not files or not files[0].is_file():
            raise ConfigError(f"There are no stories at {path}.", remedy="Name a YAML file.")
        scripts += map(load_story, files)
    with (
        tempfile.TemporaryDirectory(prefix="local2-stories-") as folder,
        logging_to(Path(folder) / "stories.log"),
    ):
        results: list[StoryResult] = []
        with progress(output) as bar:
            steps = sum(len(session.turns) for story in scripts for session in story.sessions)
            task = bar.add_task("", total=steps)
            for number, story in enumerate(scripts):
                bar.update(task, description=story.name)
                fresh = Path(folder, str(number))
                bench = Bench(nats) if nats else FreshBench(fresh, settings, model=model)
                async with bench:
                    results.append(
                        await run_story(story, bench, lambda _: bar.update(task, advance=1))
                    )
    output.data(results)
    output.table(results_table(results))
    failed = [result.name for result in results if not result.passed]
    output.text(f"{len(results) - len(failed)} of {len(results)} stories passed.")
    if failed:
        raise click.exceptions.Exit(FAILED)


def results_table(results: Sequence[StoryResult]) -> Table:
    """Make a table: a section per story, and a row per step with its problems."""
    table = Table("Story", "Session", "Step", "Outcome", Column("s", justify="right"))
    for result in results:
        name = result.name
        for step in result.steps:
            # As Text, because rich reads brackets in a plain string as markup.
            lines = [Text(step.step)]
            if step.reason is not None:
                lines.append(Text(step.reason, style="dim"))
            for problem in step.problems:
                lines.append(Text(f"expected {problem.expected}", style="red"))
                lines.append(Text(f"got      {problem.came}", style="red"))
            table.add_row(
                Text(name),
                Text(step.session),
                Text("\n").join(lines),
                Text(step.status, style=STYLES[step.status]),
                Text("" if step.status == "skipped" else f"{step.seconds:.2f}"),
            )
            name = ""
        table.add_section()
    return table
