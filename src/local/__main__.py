"""`local2`, and `python -m local`: the commands.

A client of `local2 mcp` has its first answer before the commands are even imported.
"""

import sys

NO_CLIENT = frozenset({"--help", "--http"})
"""With these options no client waits at the other end of standard input."""


def main() -> None:
    words = sys.argv[1:]
    if words[:1] == ["mcp"] and not NO_CLIENT.intersection(words):
        from local.mcp.opening import opened  # noqa: PLC0415 - nothing else is wanted yet

        opened()
    from local.cli import main as commands  # noqa: PLC0415 - it takes longer than the answer

    commands()


if __name__ == "__main__":
    main()
