"""Standing facts by their keys, for programs in Python: `await memory.topics["user.name"]`."""

from collections.abc import Generator
from typing import Any

from local.client.calls import Calls
from local.protocol.answers import RecalledTopic, SavedTopic
from local.protocol.erasure import Receipt
from local.protocol.memories import Version, Versions


class Topics:
    """The standing facts of a memory."""

    def __init__(self, calls: Calls) -> None:
        self._calls = calls

    def __getitem__(self, key: str) -> "Topic":
        return Topic(self._calls, key)


class Topic:
    """A standing fact; awaited, it is the value, or None."""

    def __init__(self, calls: Calls, key: str) -> None:
        self._calls = calls
        self.key = key

    def __await__(self) -> Generator[Any, None, str | None]:
        return self._value().__await__()

    async def _value(self) -> str | None:
        return (await self._calls.ask(RecalledTopic, "recall_topic", topic=self.key)).content

    async def set(self, value: str) -> SavedTopic:
        """Make this the value; the one before stays in the history."""
        return await self._calls.ask(SavedTopic, "save_topic", topic=self.key, content=value)

    async def history(self) -> list[Version]:
        """Every version, newest first."""
        found = await self._calls.ask(Versions, "memory_history", topic_or_id=self.key)
        return found.versions

    async def delete(self) -> Receipt:
        """Erase it for good, with all its versions."""
        return await self._calls.forget(topic=self.key)
