"""Start all of local2 without any configuration: `uv run run_local.py`."""

import sys

from local2.__main__ import main

if __name__ == "__main__":
    sys.argv.insert(1, "up")
    main()
