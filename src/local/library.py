"""The memory as a library: opened on a folder, without a command or a stack running beside."""

from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path

import msgspec
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
    read as ever; logs go to `.local2/logs`, unless the program has configured structlog itself.

    Raises:
        FolderLockedError: A stack runs on this folder: call its tools over the bus.
        ConfigError: A file in `config/` or an environment override is wrong.
        BusError: The NATS server did not start.
        StorageError: The ledger cannot be opened.
    """
    settings = load_settings()
    data = Path(folder) / ".local2"
    memory = msgspec.structs.replace(
        settings.memory, data_dir=data, chroma_path=Path(folder) / ".chroma"
    )
    async with AsyncExitStack() as resources:
        if not structlog.is_configured():
            resources.enter_context(logging_to(data / "logs" / "library.log"))
        stack = await resources.enter_async_context(
            open_stack(
                msgspec.structs.replace(settings, memory=memory),
                log_folder=data / "logs",
                with_generator=False,
            )
        )
        yield stack.memories
