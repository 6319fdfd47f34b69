"""The examples in the docs, as a reader would copy them."""

import re
import runpy
from contextlib import redirect_stdout
from io import StringIO
from pathlib import Path

from commands import ROOT


def python_in(page: str, naming: str) -> str:
    """Return the one Python example of a page that contains this text."""
    text = (ROOT / page).read_text(encoding="utf-8")
    (example,) = [
        one for one in re.findall(r"```python\n(.*?)```", text, re.DOTALL) if naming in one
    ]
    return str(example)


def printed_by(program: str, folder: Path) -> str:
    """Run a program in this process, which saves its imports; return what it prints."""
    file = folder / "example.py"
    file.write_text(program, encoding="utf-8")
    output = StringIO()
    with redirect_stdout(output):
        runpy.run_path(str(file), run_name="__main__")
    return output.getvalue()
