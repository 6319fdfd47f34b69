"""A stack in a process of its own, as its environment says; SIGTERM stops it."""

import asyncio
import signal

import uvloop

from local.app import open_stack
from local.logs import logging_to
from local.settings import load_settings


async def serve() -> None:
    settings = load_settings()
    stop = asyncio.Event()
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, stop.set)
    async with open_stack(settings, log_folder=settings.memory.data_dir / "logs"):
        await stop.wait()


if __name__ == "__main__":
    with logging_to(load_settings().memory.data_dir / "logs" / "stack.log"):
        uvloop.run(serve())
