"""`import local2`: the names it exports, and that importing it is cheap."""

import ast
import json
import subprocess
import sys
from pathlib import Path

import pytest

import local2

IMPORTED = """
import json, sys
import local2
local2.ForbiddenError, local2.__version__
print(json.dumps(sorted(name for name in sys.modules if "." not in name)))
"""
HEAVY = {"msgspec", "nats", "asyncio", "numpy", "chromadb", "structlog"}


def test_every_exported_name_exists() -> None:
    assert [name for name in local2.__all__ if not hasattr(local2, name)] == []
    assert set(local2.__all__) <= set(dir(local2))
    with pytest.raises(AttributeError, match="no_such_name"):
        local2.no_such_name  # noqa: B018


def test_type_checkers_see_the_names_that_are_imported() -> None:
    tree = ast.parse(Path(local2.__file__).read_text(encoding="utf-8"))
    (checking,) = (node for node in tree.body if isinstance(node, ast.If))
    seen = {
        alias.name: node.module
        for node in checking.body
        if isinstance(node, ast.ImportFrom)
        for alias in node.names
    }

    assert seen == local2._MODULES
    eager = {name for name in vars(local2) if name in local2.__all__} | seen.keys()
    assert eager == set(local2.__all__)


def test_importing_the_package_imports_nothing_heavy() -> None:
    ran = subprocess.run(
        [sys.executable, "-c", IMPORTED], capture_output=True, text=True, check=True
    )

    assert HEAVY & set(json.loads(ran.stdout)) == set()
