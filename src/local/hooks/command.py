"""One hook: reads what happened, acts on it, and ends well, whatever goes wrong, in good time."""

import os
import signal
import sys
from collections.abc import Sequence
from contextlib import suppress
from types import FrameType
from typing import NoReturn

import msgspec

from local.home import MARK, PRIVATE, home_of, own_home, person_of
from local.hooks.acting import Hooks, start_delivery
from local.hooks.clients import CLIENTS
from local.hooks.log import log_problem
from local.hooks.situation import Situation

LONGEST = 2.0
"""Seconds after which a hook ends, whatever it is doing: a disk may hang, too."""


def main(arguments: Sequence[str]) -> NoReturn:
    """Run a hook: CLIENT EVENT [--home DIR] [--user NAME], with what happened on standard input.

    It exits with 0, and writes all of its answer or nothing.
    """
    os.umask(PRIVATE)
    signal.signal(signal.SIGALRM, _give_up)
    signal.setitimer(signal.ITIMER_REAL, LONGEST)
    try:
        output = _run(arguments)
        signal.setitimer(signal.ITIMER_REAL, 0)
        while output:
            output = output[os.write(sys.stdout.fileno(), output) :]
    finally:
        os._exit(0)


def _give_up(_: int, __: FrameType | None) -> None:
    os._exit(0)


def _run(arguments: Sequence[str]) -> bytes:
    """What the hook writes; problems go to the log of the memory that it is about."""
    name, event, *rest = arguments
    options = dict(zip(rest[::2], rest[1::2], strict=True))
    home = own_home()
    try:
        home = home_of(options.get("--home"))
        client = CLIENTS[name]
        happened = client.read(sys.stdin.buffer.read())
        if happened is None:
            return b""
        if happened.project is not None:
            with suppress(OSError):
                os.chdir(happened.project)
        home = home_of(options.get("--home"))
        situation = Situation.of(home, person_of(options.get("--user")))
        context = Hooks(client, situation, start_delivery).act(happened)
    except Exception as error:  # noqa: BLE001 - whatever it is, it is not the client's concern
        log_problem(home / MARK, f"{name} {event}", error)
        return b""
    return msgspec.json.encode(client.answer(event, context)) if context else b""
