"""Traces and metrics; `config/telemetry.yaml` switches them on.

While they are off, `tracer` and `meter` are None, and their libraries are not imported. Functions
that run many times a second are wrapped when they are created, or check `tracer` or `meter`
themselves. Everything else calls the functions of this module, which do nothing while both are off.

Spans and metrics never contain the text of a message, or a name that a client chose.
"""

import asyncio
import time
from collections.abc import AsyncIterator, Callable, Iterator, Mapping
from contextlib import asynccontextmanager, contextmanager, nullcontext
from functools import partial
from typing import TYPE_CHECKING, Any, Literal

import msgspec

from local2.errors import ConfigError, extra_to_install

if TYPE_CHECKING:
    from local2.telemetry.instruments import Meter
    from local2.telemetry.spans import Tracer

tracer: "Tracer | None" = None
meter: "Meter | None" = None

PROVIDER = "local2"

ModelOperation = Literal["chat", "rerank"]


class GaugeReading(msgspec.Struct, frozen=True, kw_only=True):
    """The current value of a gauge; its labels are the tenant and the kind of tasks."""

    name: str
    value: float
    labels: Mapping[str, str] = {}


Count = Callable[[int], None]
CountTokens = Callable[[int, int], None]
Watch = Callable[["asyncio.Future[Any]"], None]


@asynccontextmanager
async def tracing(service: str, *, on: bool) -> AsyncIterator[None]:
    """Trace this process while the context lasts; `OTEL_*` variables configure the exporter.

    Raises:
        ConfigError: The extra is not installed, or not the exporter that `OTEL_TRACES_EXPORTER`
            names.
    """
    global tracer  # noqa: PLW0603 - one for the process
    if not on:
        yield
        return
    with _needing_the_extra("Traces"):
        from local2.telemetry.spans import exporting  # noqa: PLC0415 - it takes a third of a second

    async with exporting(service) as opened:
        before, tracer = tracer, opened
        try:
            yield
        finally:
            tracer = before


@contextmanager
def metering(*, on: bool) -> Iterator[None]:
    """Collect metrics of this process while the context lasts.

    Raises:
        ConfigError: The extra is not installed.
    """
    global meter  # noqa: PLW0603 - one for the process
    if not on:
        yield
        return
    with _needing_the_extra("Metrics"):
        from local2.telemetry.instruments import Meter  # noqa: PLC0415 - a sixth of a second

    before, meter = meter, Meter()
    try:
        yield
    finally:
        meter = before


@contextmanager
def _needing_the_extra(what: str) -> Iterator[None]:
    try:
        yield
    except ImportError as error:
        raise ConfigError(
            f"{what} need {error.name}, which is not installed.",
            remedy=f"{extra_to_install('telemetry')} Or switch them off in config/telemetry.yaml.",
        ) from error


def watching_lane(name: str) -> tuple[Watch, ...]:
    """Functions to call with the future of each piece of work on a lane of the ledger."""
    return tuple(
        partial(instrument.lane, name) for instrument in (tracer, meter) if instrument is not None
    )


@contextmanager
def memory_operation(operation: str, tenant: str) -> Iterator[Count]:
    """Make a span for an operation on memories; call the yielded function with the result count."""
    if tracer is None:
        yield lambda _count: None
        return
    attributes = {
        "gen_ai.operation.name": operation,
        "gen_ai.provider.name": PROVIDER,
        "gen_ai.memory.store.id": tenant,
    }
    with tracer.span(f"{operation} {tenant}", attributes) as span:
        yield lambda count: span.set_attribute("gen_ai.memory.record.count", count)


@contextmanager
def model_call(operation: ModelOperation, model: str, provider: str) -> Iterator[CountTokens]:
    """Make a span and metrics for a model call; call the yielded function with its tokens."""
    started_at = time.perf_counter()
    attributes = {
        "gen_ai.operation.name": operation,
        "gen_ai.provider.name": provider,
        "gen_ai.request.model": model,
    }
    context = nullcontext() if tracer is None else tracer.call(f"{operation} {model}", attributes)
    try:
        with context as span:

            def count_tokens(read: int, written: int) -> None:
                if span is not None:
                    span.set_attribute("gen_ai.usage.input_tokens", read)
                    span.set_attribute("gen_ai.usage.output_tokens", written)

            yield count_tokens
    except Exception as error:
        if meter is not None:
            meter.model_errors.labels(model, type(error).__name__).inc()
        raise
    finally:
        if meter is not None:
            meter.model_seconds.labels(model, operation).observe(time.perf_counter() - started_at)


def tool_failed(tool: str, code: str) -> None:
    """Record that the current request is answered with an error."""
    if tracer is not None:
        tracer.fail_current(code)
    if meter is not None:
        meter.tool_errors.labels(tool, code).inc()
