"""Start the whole of local2 with nothing to configure: `uv run run_local.py`."""

import sys

from local.cli import app

if __name__ == "__main__":
    app(["up", *sys.argv[1:]])
