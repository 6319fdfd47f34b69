"""Start all of local2 without any configuration: `uv run run_local.py`."""

import sys

if __name__ == "__main__":
    try:
        from local2.cli import app
    except KeyboardInterrupt:  # during the import; afterwards the command handles it
        sys.exit(130)
    app(["up", *sys.argv[1:]])
