"""Where stories are played: on a stack that runs already, or on one of their own."""

from contextlib import AsyncExitStack
from pathlib import Path
from typing import Self

from msgspec.structs import replace

from local.app import open_stack
from local.client import Connection, connect
from local.client.queries import QueryClient
from local.settings import BusSettings, ChatChoice, Settings


class Bench:
    """A connection to a stack that runs already, and goes on running afterwards."""

    bus: Connection
    queries: QueryClient

    def __init__(self, url: str) -> None:
        self.url = url
        self._resources = AsyncExitStack()

    async def __aenter__(self) -> Self:
        async with AsyncExitStack() as opening:
            await self._open(opening)
            self._resources = opening.pop_all()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._resources.aclose()

    async def _open(self, resources: AsyncExitStack) -> None:
        self.bus = await resources.enter_async_context(connect(self.url, name="stories"))
        self.queries = await resources.enter_async_context(QueryClient(self.bus))


class FreshBench(Bench):
    """A stack of its own, with all data in one folder; a new folder is an empty memory."""

    def __init__(self, folder: Path, settings: Settings, *, model: ChatChoice) -> None:
        super().__init__(url="")
        self._with_generator = True
        self._logs = folder / "logs"
        self._settings = Settings(
            bus=BusSettings(),
            memory=replace(
                settings.memory, data_dir=folder / "data", chroma_path=folder / "chroma"
            ),
            generator=replace(settings.generator, chat=model),
        )

    async def restart(self, *, with_generator: bool) -> None:
        """Stop the stack cleanly and start it again on the same folder."""
        await self._resources.aclose()
        self._with_generator = with_generator
        await self.__aenter__()

    async def _open(self, resources: AsyncExitStack) -> None:
        stack = await resources.enter_async_context(
            open_stack(self._settings, log_folder=self._logs, with_generator=self._with_generator)
        )
        self.url = stack.url
        await super()._open(resources)
