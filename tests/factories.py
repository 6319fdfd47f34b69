"""Types of the fixtures that are factories."""

from collections.abc import Awaitable, Callable

from local.agents.vector_worker import VectorWorker
from local.bus.connection import Connection, Message

ConnectBus = Callable[[], Awaitable[Connection]]
Listen = Callable[[str], Awaitable[list[Message]]]
StartWorker = Callable[[], Awaitable[VectorWorker]]
