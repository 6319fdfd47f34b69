"""The example of docs/conversation.md runs unchanged."""

import re
import subprocess
import sys
from pathlib import Path

DOCS = Path(__file__).parents[2] / "docs" / "conversation.md"


def test_the_example_of_the_docs_runs(tmp_path: Path) -> None:
    example, printed = re.findall(r"```(?:python)?\n(.*?)```", DOCS.read_text(), re.DOTALL)

    done = subprocess.run(
        [sys.executable, "-c", example],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )

    assert done.stdout == printed, done.stderr
    assert (tmp_path / "memory.json").exists()
