"""Spans over OpenTelemetry's SDK, and where they are exported to.

The provider is the process's own and never the global one, which belongs to the program around it.
Exceptions are recorded by their type only: their messages repeat what was asked.
"""

import asyncio
import logging
import os
from collections.abc import AsyncIterator, Iterator, Mapping
from contextlib import AbstractContextManager, asynccontextmanager, contextmanager
from importlib.metadata import entry_points
from typing import Any

import structlog
from opentelemetry.context import Context
from opentelemetry.sdk.resources import SERVICE_NAME, OTELResourceDetector, Resource
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor, SpanExporter
from opentelemetry.trace import Span, SpanKind, Status, StatusCode, get_current_span
from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator

from local import __version__
from local.errors import ConfigError, Local2Error

TRACEPARENT = "traceparent"
LONGEST = 512
"""Characters of `traceparent`: of a longer one OpenTelemetry would log each."""
EXPORTERS = "opentelemetry_traces_exporter"
STOP_PATIENCE = 2.0
"""Seconds that a collector which does not answer may delay a stop."""

Attributes = Mapping[str, str]

log = structlog.get_logger()

_propagator = TraceContextTextMapPropagator()


class Tracer:
    """Makes spans; the current span is the parent of a new one."""

    def __init__(self, provider: TracerProvider) -> None:
        self._tracer = provider.get_tracer("local2", __version__)

    @contextmanager
    def span(
        self,
        name: str,
        attributes: Attributes,
        *,
        kind: SpanKind = SpanKind.INTERNAL,
        context: Context | None = None,
    ) -> Iterator[Span]:
        """A span that is current while the context lasts."""
        with (
            self._tracer.start_as_current_span(
                name,
                context=context,
                kind=kind,
                attributes=attributes,
                record_exception=False,
                set_status_on_exception=False,
            ) as span,
            _failing(span),
        ):
            yield span

    def requested(self, name: str, attributes: Attributes) -> AbstractContextManager[Span]:
        """Make a span of a request to another participant, until its answer."""
        return self.span(name, attributes, kind=SpanKind.CLIENT)

    def received(
        self, name: str, attributes: Attributes, headers: Mapping[str, str] | None
    ) -> AbstractContextManager[Span]:
        """Make a span of the handling of a message, as a part of the trace that its headers name.

        No other header is used: `tracestate` may hold any text.
        """
        carried = (headers or {}).get(TRACEPARENT, "")
        context = _propagator.extract({TRACEPARENT: carried[:LONGEST]})
        return self.span(name, attributes, kind=SpanKind.SERVER, context=context)

    def carried(self) -> dict[str, str]:
        """Return the header that continues the current trace at the receiver."""
        if not _is_traced():
            return {}
        headers: dict[str, str] = {}
        _propagator.inject(headers)
        return {TRACEPARENT: headers[TRACEPARENT]}

    @contextmanager
    def call(self, name: str, attributes: Attributes) -> Iterator[Span]:
        """Make a span without inner spans: it never becomes current, so a generator may hold it."""
        span = self._tracer.start_span(name, kind=SpanKind.CLIENT, attributes=attributes)
        try:
            with _failing(span):
                yield span
        finally:
            span.end()

    def lane(self, name: str, future: "asyncio.Future[Any]") -> None:
        """Make a span of work on the ledger until its future is done; outside a trace, none."""
        if not _is_traced():
            return
        span = self._tracer.start_span(f"ledger {name}", attributes={"db.system.name": "sqlite"})

        def end(done: "asyncio.Future[Any]") -> None:
            if not done.cancelled() and (error := done.exception()) is not None:
                _fail(span, _error_type(error))
            span.end()

        future.add_done_callback(end)

    def fail_current(self, code: str) -> None:
        """Record that the current work is answered with an error of this code."""
        _fail(get_current_span(), code)


def _is_traced() -> bool:
    """Return whether a span is current here."""
    return get_current_span().get_span_context().is_valid


def _fail(span: Span, error: str) -> None:
    span.set_attribute("error.type", error)
    span.set_status(Status(StatusCode.ERROR))


def _error_type(error: BaseException) -> str:
    """Return the code of an error of ours, or the class of another one; never its message."""
    return error.code if isinstance(error, Local2Error) else type(error).__name__


@contextmanager
def _failing(span: Span) -> Iterator[None]:
    try:
        yield
    except Exception as error:
        _fail(span, _error_type(error))
        raise


@asynccontextmanager
async def exporting(service: str) -> AsyncIterator[Tracer]:
    """A tracer whose spans are exported in batches, the last ones at the end.

    Raises:
        ConfigError: `OTEL_TRACES_EXPORTER` names an exporter that is not installed.
    """
    named = {SERVICE_NAME: service, **OTELResourceDetector().detect().attributes}
    provider = TracerProvider(resource=Resource.create(named), shutdown_on_exit=False)
    exporter = span_exporter()
    provider.add_span_processor(BatchSpanProcessor(exporter))
    with _logged():
        try:
            yield Tracer(provider)
        finally:
            stopping = asyncio.create_task(asyncio.to_thread(provider.shutdown))
            await asyncio.wait((stopping,), timeout=STOP_PATIENCE)
            if not stopping.done():
                exporter.shutdown()
            await stopping


class _Log(logging.Handler):
    def emit(self, record: logging.LogRecord) -> None:
        log.warning("traces_not_exported", reason=record.getMessage())


@contextmanager
def _logged() -> Iterator[None]:
    """Write what OpenTelemetry reports of its exports to our log."""
    theirs, handler = logging.getLogger("opentelemetry"), _Log(logging.WARNING)
    theirs.addHandler(handler)
    theirs.propagate = False
    try:
        yield
    finally:
        theirs.removeHandler(handler)
        theirs.propagate = True


def span_exporter() -> SpanExporter:
    """Return the exporter that `OTEL_TRACES_EXPORTER` names; by default that of OTLP.

    It reads its own `OTEL_*` variables.

    Raises:
        ConfigError: It is not installed.
    """
    name = os.environ.get("OTEL_TRACES_EXPORTER") or "otlp"
    if name == "otlp":
        protocol = os.environ.get("OTEL_EXPORTER_OTLP_PROTOCOL") or "grpc"
        name = "otlp_proto_grpc" if protocol == "grpc" else "otlp_proto_http"
    for found in entry_points(group=EXPORTERS, name=name):
        exporter: SpanExporter = found.load()()
        return exporter
    installed = ", ".join(sorted(entry_points(group=EXPORTERS).names))
    raise ConfigError(
        f"OTEL_TRACES_EXPORTER asks for the exporter {name!r}, which is not installed.",
        remedy=f"Install its package, or choose one of: {installed}.",
    )
