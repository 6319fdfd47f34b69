"""The tests of the adapters run in a process of their own.

Each test process would otherwise import all the frameworks, since each collects all tests.
"""

import os
import subprocess
import sys
from pathlib import Path

import pytest

INTEGRATIONS = Path(__file__).parent / "integrations"


@pytest.mark.timeout(600)
def test_the_adapters_of_frameworks_pass_their_tests(request: pytest.FixtureRequest) -> None:
    if any(item.path.is_relative_to(INTEGRATIONS) for item in request.session.items):
        pytest.skip("They run in this process.")
    ran = subprocess.run(
        [sys.executable, "-m", "pytest", INTEGRATIONS, "--numprocesses=0", "--quiet"],
        cwd=Path(__file__).parents[1],
        capture_output=True,
        text=True,
        check=False,
        env={name: value for name, value in os.environ.items() if "PYTEST" not in name},
    )
    assert ran.returncode == 0, ran.stdout + ran.stderr
