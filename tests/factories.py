"""Types of the fixtures that are factories."""

from collections.abc import Awaitable, Callable

from local2.bus.connection import BusMessage, Connection
from local2.generator.agent import GeneratorAgent

ConnectBus = Callable[[], Awaitable[Connection]]
Listen = Callable[[str], Awaitable[list[BusMessage]]]
StartWorker = Callable[[], Awaitable[None]]
StartGenerator = Callable[..., Awaitable[GeneratorAgent]]
