"""The entry point of `local2` and of `python -m local2`.

`local2 mcp` answers its client's first message before the other commands are imported.
"""

import os
import sys

OPTIONS_WITHOUT_CLIENT = frozenset({"--help", "--http"})
"""Options of `local2 mcp` with which no client waits at the other end of standard input."""


def main() -> None:
    # Before numpy is imported. Its threads would spin for 30 ms after each product of matrices,
    # of which a recall needs a few small ones, and would keep a core from the vector worker.
    os.environ.setdefault("OMP_NUM_THREADS", "1")
    # nats-py imports aiohttp, where it is installed, for servers over WebSockets, which no command
    # uses. It would be almost half of what a command imports.
    sys.modules.setdefault("aiohttp", None)  # type: ignore[arg-type]
    arguments = sys.argv[1:]
    if arguments[:1] == ["mcp"] and not OPTIONS_WITHOUT_CLIENT.intersection(arguments):
        from local2.mcp.opening import answer_initialize  # noqa: PLC0415 - nothing else is needed yet

        answer_initialize()
    try:
        from local2.cli import app as commands  # noqa: PLC0415 - it is slower than the answer
    except KeyboardInterrupt:  # afterwards the commands handle it
        sys.exit(130)
    commands()


if __name__ == "__main__":
    main()
