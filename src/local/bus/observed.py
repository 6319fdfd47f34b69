"""The bus with traces and metrics, where they are switched on.

Both ends are wrapped when they are made, so a message costs nothing where they are off. A trace is
carried by the header `traceparent` of W3C, through requests and through JetStream.
"""

from time import perf_counter
from typing import TYPE_CHECKING, Any

from nats.aio.msg import Msg

from local import telemetry
from local.bus.subscription import BusMessage, Handler
from local.bus.tolerant_client import TolerantClient

if TYPE_CHECKING:
    from local.telemetry.instruments import Meter
    from local.telemetry.spans import Attributes, Tracer

HEADER_ROOM = 256
"""Bytes that `traceparent` and the protocol around headers take at most. A message without so much
room goes untraced: the server closes the connection of who sends too much."""
TOOL_REQUEST = "tool.request."
OF_THE_SERVER = "$"
"""The beginning of subjects that nats-server itself answers, as `$JS.API`."""


def new_client() -> TolerantClient:
    """A client of NATS, which carries traces if there are any."""
    return TolerantClient() if telemetry.tracer is None else _TracedClient(telemetry.tracer)


def observed(participant: str, subject: str, handler: Handler) -> Handler:
    """A participant's handler, traced and measured as far as that is on; else itself."""
    if telemetry.meter is not None:
        handler = _measured(telemetry.meter, (participant, subject), handler)
    if telemetry.tracer is not None:
        handler = _traced(telemetry.tracer, subject, handler)
    return handler


class _TracedClient(TolerantClient):
    """Adds the header, and has a span for each request, which JetStream's publishing is, too."""

    def __init__(self, tracer: "Tracer") -> None:
        super().__init__()
        self._spans = tracer

    async def publish(
        self,
        subject: str,
        payload: bytes = b"",
        reply: str = "",
        headers: dict[str, str] | None = None,
    ) -> None:
        carried = self._spans.carried()
        if carried and self._has_room(payload, headers):
            headers = {**(headers or {}), **carried}
        await super().publish(subject, payload, reply, headers)

    async def request(
        self,
        subject: str,
        payload: bytes = b"",
        timeout: float = 0.5,  # noqa: ASYNC109 - as in nats-py
        old_style: bool = False,
        headers: dict[str, Any] | None = None,
    ) -> Msg:
        if subject.startswith(OF_THE_SERVER):
            return await super().request(subject, payload, timeout, old_style, headers)
        with self._spans.requested(*_request_of(subject)):
            return await super().request(subject, payload, timeout, old_style, headers)

    def _has_room(self, payload: bytes, headers: dict[str, str] | None) -> bool:
        size = len(payload) + sum(len(k) + len(v) + 4 for k, v in (headers or {}).items())
        return size + HEADER_ROOM <= self.max_payload


def _request_of(subject: str) -> "tuple[str, Attributes]":
    """The name and the attributes of a span for a request."""
    about = _about(subject, "send")
    if not subject.startswith(TOOL_REQUEST):
        return f"request {subject}", about
    tool = subject.removeprefix(TOOL_REQUEST)
    about |= {"gen_ai.operation.name": "execute_tool", "gen_ai.tool.name": tool}
    return f"execute_tool {tool}", about


def _about(subject: str, operation: str) -> dict[str, str]:
    return {
        "messaging.system": "nats",
        "messaging.operation.type": operation,
        "messaging.destination.name": subject,
    }


def _traced(tracer: "Tracer", subject: str, handler: Handler) -> Handler:
    name, about = f"process {subject}", _about(subject, "process")

    async def trace(message: BusMessage) -> None:
        with tracer.received(name, about, message.headers):
            await handler(message)

    return trace


def _measured(meter: "Meter", labels: tuple[str, str], handler: Handler) -> Handler:
    seconds = meter.request_seconds.labels(*labels)
    in_progress = meter.requests_in_progress.labels(*labels)

    async def measure(message: BusMessage) -> None:
        begun = perf_counter()
        in_progress.inc()
        try:
            await handler(message)
        finally:
            in_progress.dec()
            seconds.observe(perf_counter() - begun)

    return measure
