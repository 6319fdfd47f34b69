"""The examples in the docs, as a reader would copy them."""

import re

from commands import ROOT


def python_in(page: str, naming: str) -> str:
    """Return the one Python example of a page that contains this text."""
    text = (ROOT / page).read_text(encoding="utf-8")
    (example,) = [
        one for one in re.findall(r"```python\n(.*?)```", text, re.DOTALL) if naming in one
    ]
    return str(example)
