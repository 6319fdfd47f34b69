"""Processes forked from one that has imported local2, which saves two seconds each."""

import asyncio
import multiprocessing
import os
import signal
from collections.abc import Callable
from contextlib import suppress
from typing import Any

_forks = multiprocessing.get_context("forkserver")
_forks.set_forkserver_preload(["local2.cli.up", "local2.agents.vector_worker", "shared_minilm"])


class Fork:
    """A process that runs a function, with the part of `Popen` that tests use."""

    def __init__(self, function: Callable[..., None], *args: Any) -> None:
        self._process = _forks.Process(target=function, args=args)
        self._process.start()

    @property
    def pid(self) -> int:
        assert self._process.pid is not None
        return self._process.pid

    @property
    def returncode(self) -> int | None:
        return self._process.exitcode

    def poll(self) -> int | None:
        return self._process.exitcode

    def wait(self, timeout: float | None = None) -> int:
        """Return its exit code, or the negative number of the signal that ended it."""
        self._process.join(timeout)
        code = self._process.exitcode
        assert code is not None, "it still runs"
        return code

    def send_signal(self, number: signal.Signals) -> None:
        with suppress(ProcessLookupError):
            os.kill(self.pid, number)

    def terminate(self) -> None:
        self.send_signal(signal.SIGTERM)

    def kill(self) -> None:
        self.send_signal(signal.SIGKILL)


async def exit_code(function: Callable[..., None], *args: Any) -> int:
    """Return how a process that runs a function ends."""
    return await asyncio.to_thread(Fork(function, *args).wait)
