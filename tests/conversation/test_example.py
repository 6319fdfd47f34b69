"""The example of docs/conversation.md runs unchanged."""

import re
from contextlib import chdir
from pathlib import Path

from commands import ROOT
from doc_pages import printed_by

PAGE = ROOT / "docs" / "conversation.md"


def test_the_example_of_the_docs_runs(tmp_path: Path) -> None:
    example, printed = re.findall(r"```(?:python)?\n(.*?)```", PAGE.read_text(), re.DOTALL)

    with chdir(tmp_path):
        assert printed_by(example, tmp_path) == printed

    assert (tmp_path / "memory.json").exists()
