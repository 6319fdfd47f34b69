"""The example of every page in docs/integrations prints what the page says, from nothing."""

import asyncio
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from local.home import RUNTIME_FILE
from waiting import eventually

PAGES = sorted((Path(__file__).parents[2] / "docs" / "integrations").glob("*.md"))
STOPPED = 60.0
"""Seconds for the stack that the example started to notice that nobody uses it, and to stop."""


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
async def test_the_example_prints_what_the_page_says(page: Path, tmp_path: Path) -> None:
    text = page.read_text(encoding="utf-8")
    code, printed = re.findall(r"```(?:python)?\n(.*?)```", text, re.DOTALL)[-2:]
    environment = {
        **os.environ,
        "LOCAL2_HOME": str(tmp_path / "home"),
        "LOCAL2_MEMORY__EMBEDDER": "minilm",
        "LOCAL2_GENERATOR__CHAT": "rules",
    }

    ran = await asyncio.to_thread(
        subprocess.run,
        [sys.executable, "-c", code],
        cwd=tmp_path,
        env=environment,
        capture_output=True,
        text=True,
        timeout=100,
        check=False,
    )

    assert (ran.stdout, ran.returncode) == (printed, 0), ran.stderr
    data = tmp_path / "home" / ".local2"
    await eventually(lambda: not (data / RUNTIME_FILE).exists(), within=STOPPED)
