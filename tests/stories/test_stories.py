"""Every story in `stories/` comes true on a live stack, with the deterministic model."""

from pathlib import Path

import pytest
from rich.console import Console

from local.settings import Settings
from local.stories.bench import FreshBench
from local.stories.report import table
from local.stories.runner import run_story
from local.stories.script import load_story

FOLDER = Path(__file__).parents[2] / "stories"
FILES = [pytest.param(path, id=path.stem) for path in sorted(FOLDER.glob("*.yaml"))]


@pytest.mark.parametrize("path", FILES)
async def test_the_story_comes_true(path: Path, tmp_path: Path) -> None:
    async with FreshBench(tmp_path, Settings(), model="rules") as bench:
        result = await run_story(load_story(path), bench)
    if not result.passed:
        Console(width=120).print(table([result]))
    assert {step.status for step in result.steps} == {"passed"}
