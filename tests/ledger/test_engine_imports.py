"""A stack on SQLite imports no driver of another database."""

import subprocess
import sys

PROGRAM = """
import sys
import local2.cli.up, local2.stack.app
print([name for name in ("psycopg", "local2.ledger.engines.postgres") if name in sys.modules])
"""


def test_an_embedded_stack_imports_no_psycopg() -> None:
    answer = subprocess.run(
        [sys.executable, "-c", PROGRAM], capture_output=True, text=True, check=True
    )

    assert answer.stdout == "[]\n"
