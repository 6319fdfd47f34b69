"""Patterns of a natural language stand in one folder only."""

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import local2

PACKAGE = Path(local2.__file__).parent
ALTERNATIVES = re.compile(r"(?<![\\\w])[a-z]{2,}(?:\([^()]*\)\??|[a-z' ?])*\|[a-z]{2,}")
"""Two words between which a pattern chooses."""
NO_ENGLISH = {  # and why its patterns are not of a natural language
    "bus/stream_erasure.py": "names of fields",
    "endpoint/address.py": "the errors of other servers",
    "ledger/sql/__init__.py": "marks of statements",
    "llm/ollama.py": "the errors of Ollama",
    "memory/recall/query.py": "the beginnings of topic keys",
}


def patterns(tree: ast.Module) -> Iterator[str]:
    """Yield the patterns that a module compiles or searches for."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and ast.unparse(node.func).startswith("re."):
            for part in ast.walk(node):
                if isinstance(part, ast.Constant) and isinstance(part.value, str):
                    yield part.value


def test_no_other_module_has_patterns_of_english_words() -> None:
    found = set[str]()
    for path in PACKAGE.rglob("*.py"):
        name = path.relative_to(PACKAGE).as_posix()
        if not name.startswith("language/") and name not in NO_ENGLISH:
            tree = ast.parse(path.read_text(encoding="utf-8"))
            found |= {f"{name}: {one[:60]}" for one in patterns(tree) if ALTERNATIVES.search(one)}

    assert found == set()
