"""Types of the fixtures that are factories."""

from collections.abc import Awaitable, Callable

from local.agents.generator_agent import GeneratorAgent
from local.bus.connection import Connection, Message

ConnectBus = Callable[[], Awaitable[Connection]]
Listen = Callable[[str], Awaitable[list[Message]]]
StartWorker = Callable[[], Awaitable[None]]
StartGenerator = Callable[..., Awaitable[GeneratorAgent]]
