"""Spans and their export, with OpenTelemetry's SDK.

The tracer provider is private; the global one belongs to the program that embeds local2. Exceptions
are recorded by type only, because their messages may repeat content.
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

from local2._version import __version__
from local2.errors import ConfigError, Local2Error, extra_to_install

TRACEPARENT = "traceparent"
MAX_TRACEPARENT = 512
"""Maximum characters of `traceparent`; OpenTelemetry would log every longer one in full."""
EXPORTERS = "opentelemetry_traces_exporter"
"""The entry point group of span exporters."""
STOP_PATIENCE = 2.0
"""Maximum seconds that a collector which does not answer may delay stopping."""

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
        """Make a span that is current while the context lasts."""
        with (
            self._tracer.start_as_current_span(
                name,
                context=context,
                kind=kind,
                attributes=attributes,
                record_exception=False,
                set_status_on_exception=False,
            ) as span,
            _record_failure(span),
        ):
            yield span

    def request_span(self, name: str, attributes: Attributes) -> AbstractContextManager[Span]:
        """Make a span for a request to another participant, until its answer."""
        return self.span(name, attributes, kind=SpanKind.CLIENT)

    def message_span(
        self, name: str, attributes: Attributes, headers: Mapping[str, str] | None
    ) -> AbstractContextManager[Span]:
        """Make a span for handling a message, within the trace that its headers name.

        Only `traceparent` is used, because `tracestate` may contain any text.
        """
        traceparent = (headers or {}).get(TRACEPARENT, "")
        context = _propagator.extract({TRACEPARENT: traceparent[:MAX_TRACEPARENT]})
        return self.span(name, attributes, kind=SpanKind.SERVER, context=context)

    def trace_headers(self) -> dict[str, str]:
        """The header with which the receiver continues the current trace."""
        if not _is_traced():
            return {}
        headers: dict[str, str] = {}
        _propagator.inject(headers)
        return {TRACEPARENT: headers[TRACEPARENT]}

    @contextmanager
    def call(self, name: str, attributes: Attributes) -> Iterator[Span]:
        """Make a span that never becomes current, so that a generator may hold it; it is a leaf."""
        span = self._tracer.start_span(name, kind=SpanKind.CLIENT, attributes=attributes)
        try:
            with _record_failure(span):
                yield span
        finally:
            span.end()

    def lane(self, name: str, future: "asyncio.Future[Any]") -> None:
        """Make a span for work on the ledger until its future is done; none outside a trace."""
        if not _is_traced():
            return
        span = self._tracer.start_span(f"ledger {name}", attributes={"db.system.name": "sqlite"})

        def end(done: "asyncio.Future[Any]") -> None:
            if not done.cancelled() and (error := done.exception()) is not None:
                _set_error(span, _error_type(error))
            span.end()

        future.add_done_callback(end)

    def fail_current(self, code: str) -> None:
        """Mark the current span as failed with this error code."""
        _set_error(get_current_span(), code)


def _is_traced() -> bool:
    """Whether there is a current span."""
    return get_current_span().get_span_context().is_valid


def _set_error(span: Span, error: str) -> None:
    span.set_attribute("error.type", error)
    span.set_status(Status(StatusCode.ERROR))


def _error_type(error: BaseException) -> str:
    """The code of a Local2Error, or the class of another exception; never the message."""
    return error.code if isinstance(error, Local2Error) else type(error).__name__


@contextmanager
def _record_failure(span: Span) -> Iterator[None]:
    try:
        yield
    except Exception as error:
        _set_error(span, _error_type(error))
        raise


@asynccontextmanager
async def exporting(service: str) -> AsyncIterator[Tracer]:
    """Yield a tracer whose spans are exported in batches; flush them at the end.

    Raises:
        ConfigError: `OTEL_TRACES_EXPORTER` names an exporter that is not installed.
    """
    named = {SERVICE_NAME: service, **OTELResourceDetector().detect().attributes}
    provider = TracerProvider(resource=Resource.create(named), shutdown_on_exit=False)
    exporter = span_exporter()
    provider.add_span_processor(BatchSpanProcessor(exporter))
    logger, handler = logging.getLogger("opentelemetry"), _Log(logging.WARNING)
    logger.addHandler(handler)
    logger.propagate = False
    try:
        try:
            yield Tracer(provider)
        finally:
            stopping = asyncio.create_task(asyncio.to_thread(provider.shutdown))
            await asyncio.wait((stopping,), timeout=STOP_PATIENCE)
            if not stopping.done():
                exporter.shutdown()
            await stopping
    finally:
        logger.removeHandler(handler)
        logger.propagate = True


class _Log(logging.Handler):
    """Puts OpenTelemetry's warnings about exports into our log."""

    def emit(self, record: logging.LogRecord) -> None:
        log.warning("traces_not_exported", reason=record.getMessage())


def span_exporter() -> SpanExporter:
    """The exporter that `OTEL_TRACES_EXPORTER` names, by default OTLP.

    The exporter reads its own `OTEL_*` variables.

    Raises:
        ConfigError: The exporter is not installed.
    """
    name = os.environ.get("OTEL_TRACES_EXPORTER") or "otlp"
    if name == "otlp":
        protocol = os.environ.get("OTEL_EXPORTER_OTLP_PROTOCOL") or "grpc"
        name = "otlp_proto_grpc" if protocol == "grpc" else "otlp_proto_http"
    for found in entry_points(group=EXPORTERS, name=name):
        exporter: SpanExporter = found.load()()
        return exporter
    installed = ", ".join(sorted(entry_points(group=EXPORTERS).names))
    if name == "otlp_proto_grpc":
        raise ConfigError(
            "The exporter for OTLP over gRPC is not installed.",
            remedy=f"{extra_to_install('telemetry')} Or choose with OTEL_TRACES_EXPORTER one of: "
            f"{installed}.",
        )
    raise ConfigError(
        f"OTEL_TRACES_EXPORTER names the exporter {name!r}, which is not installed.",
        remedy=f"Install its package, or choose one of: {installed}.",
    )
