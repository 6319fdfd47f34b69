"""The tools heard on the bus: learned from `tool.schema` only, early or late."""

import asyncio
from contextlib import suppress
from typing import Self

import structlog

from local.bus.connection import Connection, Message, Subscription
from local.bus.identity import is_genuine
from local.errors import BadRequestError
from local.protocol import subjects
from local.protocol.envelope import encode, header_of, seal
from local.protocol.payloads import Empty, ToolSchema
from local.protocol.tool_messages import read_schema

MOST_TOOLS = 10_000
"""Names; of more the memory's own are still heard, and those known already."""
MOST_REFUSALS = 1_000
"""Different ones, of which each is logged once."""

log = structlog.get_logger()


class Toolbox:
    """Listens for schemas while its context lasts; asks everybody to announce when it starts."""

    def __init__(self, bus: Connection, *, source: str) -> None:
        self._bus = bus
        self._source = source
        self._schemas: dict[str, ToolSchema] = {}
        self._own: set[str] = set()
        self._refused: set[tuple[str, str]] = set()
        self._changed = asyncio.Event()
        self._subscription: Subscription | None = None

    @property
    def schemas(self) -> list[ToolSchema]:
        """Every tool heard so far, by name."""
        return [self._schemas[name] for name in sorted(self._schemas)]

    @property
    def announced(self) -> list[ToolSchema]:
        """The same in the order in which they were first heard."""
        return list(self._schemas.values())

    @property
    def own(self) -> frozenset[str]:
        """Names of the memory's own tools."""
        return frozenset(self._own)

    def get(self, tool: str) -> ToolSchema | None:
        """What a tool announced, if that was heard."""
        return self._schemas.get(tool)

    async def __aenter__(self) -> Self:
        self._subscription = await self._bus.subscribe(subjects.TOOL_SCHEMA, self._heard)
        await self._bus.flush()
        ask = encode(seal(Empty(), type="schema_request", source=self._source))
        await self._bus.publish(subjects.TOOL_SCHEMA_REQUEST, ask)
        return self

    async def __aexit__(self, *_: object) -> None:
        if self._subscription is not None:
            await self._subscription.stop(grace=1.0)

    async def settle(self, quiet: float = 0.2, at_most: float = 2.0) -> list[ToolSchema]:
        """Wait until no new schema came for `quiet` seconds, `at_most` in all."""
        loop = asyncio.get_running_loop()
        deadline = loop.time() + at_most
        while loop.time() < deadline:
            self._changed.clear()
            try:
                async with asyncio.timeout(quiet):
                    await self._changed.wait()
            except TimeoutError:
                break
        return self.schemas

    async def find(self, tool: str, *, within: float) -> ToolSchema | None:
        """Wait for one tool's schema; None if it is not announced in time."""
        with suppress(TimeoutError):
            async with asyncio.timeout(within):
                while tool not in self._schemas:
                    self._changed.clear()
                    await self._changed.wait()
        return self.get(tool)

    async def _heard(self, message: Message) -> None:
        try:
            schema = read_schema(message.data)
        except BadRequestError as error:
            self._refuse(message, error.logged)
            return
        if self._is_own(schema, message):
            self._own.add(schema.name)
        elif schema.name in self._own:
            self._refuse(message, f"{schema.name} is the name of a tool of the memory.")
            return
        elif schema.name not in self._schemas and len(self._schemas) >= MOST_TOOLS:
            self._refuse(message, f"More than {MOST_TOOLS:,} tools were announced.")
            return
        self._schemas[schema.name] = schema
        self._changed.set()

    def _is_own(self, schema: ToolSchema, message: Message) -> bool:
        """Whether it is the memory's: its stack goes by the signature, others by what it says."""
        secret = self._bus.secret
        return schema.reads_memory and (not secret or is_genuine(secret, message))

    def _refuse(self, message: Message, reason: str) -> None:
        """Log it once: a tool announces itself again and again."""
        header = header_of(message.data)
        refusal = (header.source if header else "", reason)
        if refusal not in self._refused and len(self._refused) < MOST_REFUSALS:
            self._refused.add(refusal)
            log.warning("announcement_refused", source=refusal[0], reason=reason)
