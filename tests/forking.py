"""Processes that are forked from one which has imported the memory: two seconds each are spared."""

import asyncio
import multiprocessing
from collections.abc import Callable
from typing import Any

_forks = multiprocessing.get_context("forkserver")
_forks.set_forkserver_preload(["local.memory.tenant", "local.vectors.store"])


async def exit_code(function: Callable[..., None], *args: Any) -> int | None:
    """How a process that runs a function ends: with 0, or by a signal, which is negative."""
    process = _forks.Process(target=function, args=args)
    process.start()
    await asyncio.to_thread(process.join)
    return process.exitcode
