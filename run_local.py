"""Start the whole of local2 with nothing to configure: `uv run run_local.py`."""

import sys

if __name__ == "__main__":
    try:
        from local.cli import app
    except KeyboardInterrupt:  # while it is imported; from then on it is the command's
        sys.exit(130)
    app(["up", *sys.argv[1:]])
