"""The example of docs/conversation.md runs as it stands."""

import ast
import inspect
import re
from pathlib import Path

import pytest

DOCS = Path(__file__).parents[2] / "docs" / "conversation.md"


async def test_the_example_of_the_docs_runs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (example,) = re.findall(r"```python\n(.*?)```", DOCS.read_text(), re.DOTALL)
    code = compile(example, str(DOCS), "exec", flags=ast.PyCF_ALLOW_TOP_LEVEL_AWAIT)
    monkeypatch.chdir(tmp_path)

    names: dict[str, object] = {}
    running = eval(code, names)  # noqa: S307 - our own docs
    if inspect.isawaitable(running):
        await running

    assert names["messages"] == [
        {"role": "system", "content": "You are helpful."},
        {"role": "user", "content": "Hello"},
    ]
    assert (tmp_path / "memory.json").exists()
