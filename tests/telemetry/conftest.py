"""Spans exported by every process of a stack that runs in the test's process."""

from collections.abc import Callable, Iterable
from pathlib import Path

import msgspec
import pytest
from opentelemetry.sdk.trace import ReadableSpan
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

from local2.settings import Settings, TelemetrySettings
from local2.telemetry import spans as telemetry_spans
from stacks import settings_in

Spans = Callable[[], list[ReadableSpan]]


@pytest.fixture
def spans(monkeypatch: pytest.MonkeyPatch) -> Spans:
    """The spans exported so far; each process of a stack has its own exporter."""
    exporters: list[InMemorySpanExporter] = []

    def exporter() -> InMemorySpanExporter:
        exporters.append(InMemorySpanExporter())
        return exporters[-1]

    monkeypatch.setattr(telemetry_spans, "span_exporter", exporter)
    monkeypatch.setenv("OTEL_BSP_SCHEDULE_DELAY", "10")
    return lambda: [span for one in exporters for span in one.get_finished_spans()]


@pytest.fixture
def traced(tmp_path: Path) -> Settings:
    return msgspec.structs.replace(settings_in(tmp_path), telemetry=TelemetrySettings(traces=True))


def span_paths(spans: Iterable[ReadableSpan]) -> set[tuple[str, ...]]:
    """Return the path of span names from the root of its trace to each span."""
    by_id = {span.context.span_id: span for span in spans if span.context}

    def path(span: ReadableSpan) -> tuple[str, ...]:
        if span.parent is None:
            return (span.name,)
        parent = by_id.get(span.parent.span_id)
        return (*(path(parent) if parent else ("(not exported)",)), span.name)

    return {path(span) for span in by_id.values()}
