"""The memory as a library: opened on a folder, without a command or a stack running beside."""

from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path

import structlog

from local.app import open_stack
from local.logs import logging_to
from local.memory.service import MemoryService
from local.memory.tenant import Memories
from local.protocol.envelope import Caller
from local.settings import load_settings

__all__ = ["Caller", "Memories", "MemoryService", "open_memory"]


@asynccontextmanager
async def open_memory(folder: Path | str = ".") -> AsyncIterator[Memories]:
    """Open the memory of a folder, made where there is none; `of` a caller it is a MemoryService.

    It is the whole stack but the generator: meanwhile others reach it over the bus. Settings are
    those of `config` in the folder; logs go to `.local2/logs`, unless the program has configured
    structlog itself.

    Raises:
        FolderLockedError: A stack runs on this folder: connect to it (`client.memory.connect`).
        ConfigError: A file in `config/` or an environment override is wrong.
        BusError: The NATS server did not start.
        StorageError: The ledger cannot be opened.
    """
    settings = load_settings(home=Path(folder))
    logs = settings.memory.data_dir / "logs"
    async with AsyncExitStack() as resources:
        if not structlog.is_configured():
            resources.enter_context(logging_to(logs / "library.log"))
        stack = await resources.enter_async_context(
            open_stack(settings, log_folder=logs, with_generator=False)
        )
        yield stack.memories
