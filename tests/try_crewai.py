"""Run the example of docs/integrations/crewai.md in an environment with CrewAI.

`uv run --group dev tests/try_crewai.py` installs CrewAI, with 800 MB, and needs a package index,
so it is not part of the test suite. No environment can have both CrewAI and local2.
"""

import os
import re
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).parents[1]
PAGE = ROOT / "docs" / "integrations" / "crewai.md"


def main() -> None:
    page = PAGE.read_text(encoding="utf-8")
    (version,) = re.findall(r"Tested with crewai ([\d.]+\d)", page)
    code, printed = re.findall(r"```(?:python)?\n(.*?)```", page, re.DOTALL)
    with tempfile.TemporaryDirectory() as name:
        environment = Path(name) / "environment"
        subprocess.run(["uv", "venv", "--quiet", environment], check=True)
        install = ["uv", "pip", "install", "--quiet", "--no-config", f"crewai=={version}"]
        subprocess.run([*install, "--python", environment], check=True)
        ran = subprocess.run(
            [environment / "bin" / "python", "-c", code],
            cwd=name,
            env={
                **os.environ,
                "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}",
                "LOCAL2_HOME": name,
                "LOCAL2_MEMORY__EMBEDDER": "minilm",
                "OPENAI_API_KEY": "none",  # the example calls no model
                "OTEL_SDK_DISABLED": "true",
            },
            stdout=subprocess.PIPE,
            text=True,
            timeout=300,
            check=True,
        )
    if not ran.stdout.endswith(printed):  # CrewAI reports its connections first
        sys.exit(f"Not so: it printed {ran.stdout!r}")


if __name__ == "__main__":
    main()
