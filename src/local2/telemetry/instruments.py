"""The process's metrics, in a private registry, and the HTTP endpoint for Prometheus.

Labels have few values, regardless of the number of users: the subjects and tools that this process
serves, the configured models and tenants, and error codes.
"""

import asyncio
from collections.abc import AsyncIterator, Callable, Coroutine, Iterable, Mapping, Sequence
from contextlib import asynccontextmanager
from functools import partial
from time import perf_counter
from typing import Any

import structlog
from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, ProcessCollector
from prometheus_client.exposition import start_http_server
from prometheus_client.metrics_core import GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from local2.errors import ConfigError
from local2.settings import TelemetrySettings, is_loopback
from local2.telemetry import GaugeReading

READ_TIMEOUT = 10.0
"""Maximum seconds for reading the gauges: Prometheus waits that long by default."""
BUCKETS = (0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60)
"""Histogram buckets in seconds: from the lookup of a topic to a turn of a slow model."""

log = structlog.get_logger()


Read = Callable[[], Coroutine[Any, Any, Sequence[GaugeReading]]]


class Meter:
    """The instruments that are updated as events happen."""

    def __init__(self) -> None:
        self.registry = registry = CollectorRegistry()
        ProcessCollector(registry=registry)
        histogram = partial(Histogram, registry=registry, buckets=BUCKETS)
        counter = partial(Counter, registry=registry)
        gauge = partial(Gauge, registry=registry)
        self.request_seconds = histogram(
            "local2_request_seconds", "Messages handled.", ["participant", "subject"]
        )
        self.requests_in_progress = gauge(
            "local2_requests_in_progress",
            "Messages that are waiting or being handled.",
            ["participant", "subject"],
        )
        self.tool_errors = counter(
            "local2_tool_errors", "Requests answered with an error.", ["tool", "code"]
        )
        self.ledger_seconds = histogram(
            "local2_ledger_seconds",
            "Work on the ledger, including the wait for its lane.",
            ["lane"],
        )
        self.ledger_jobs = gauge(
            "local2_ledger_jobs", "Work that is waiting for a lane or running.", ["lane"]
        )
        self.model_seconds = histogram(
            "local2_model_seconds", "Requests to a model.", ["model", "operation"]
        )
        self.model_errors = counter(
            "local2_model_errors", "Requests that a model did not answer.", ["model", "error"]
        )
        self.question_vectors = counter(
            "local2_question_vectors", "Query vectors; cached: not embedded again.", ["cached"]
        )

    def lane(self, name: str, future: "asyncio.Future[Any]") -> None:
        """Count and time work on the ledger until its future is done."""
        started_at, jobs = perf_counter(), self.ledger_jobs.labels(name)
        jobs.inc()

        def end(_: "asyncio.Future[Any]") -> None:
            jobs.dec()
            self.ledger_seconds.labels(name).observe(perf_counter() - started_at)

        future.add_done_callback(end)

    @asynccontextmanager
    async def serve(
        self, settings: TelemetrySettings, documentation: Mapping[str, str], read: Read
    ) -> AsyncIterator[int]:
        """Serve all metrics over HTTP while the context lasts; yield the port.

        Args:
            settings: The address and port to listen on.
            documentation: The description of each gauge, by name.
            read: Reads the gauges.

        Raises:
            ConfigError: The address is beyond loopback and that is not allowed, or it is in use.
        """
        host, port = settings.metrics_host, settings.metrics_port
        if not (settings.metrics_beyond_loopback or is_loopback(host)):
            raise ConfigError(
                f"metrics_host is {host!r}, which others can reach, and the endpoint requires no "
                "password.",
                remedy="Set it to 127.0.0.1, or allow it with `metrics_beyond_loopback: true` in "
                "config/telemetry.yaml.",
            )
        self.registry.register(_Gauges(documentation, read, asyncio.get_running_loop()))
        try:
            server, thread = start_http_server(port, host, self.registry)
        except OSError as error:
            raise ConfigError(
                f"Metrics cannot be served at {host}:{port}: {error.strerror}.",
                remedy="Choose another metrics_port in config/telemetry.yaml.",
            ) from error
        log.info("metrics_served", host=host, port=server.server_port)
        try:
            yield server.server_port
        finally:
            await asyncio.to_thread(server.shutdown)
            server.server_close()
            await asyncio.to_thread(thread.join)


class _Gauges(Collector):
    """Gauges that the server's thread reads, through the event loop, when Prometheus scrapes."""

    def __init__(
        self, documentation: Mapping[str, str], read: Read, loop: asyncio.AbstractEventLoop
    ) -> None:
        self._documentation = documentation
        self._read = read
        self._loop = loop

    def describe(self) -> Iterable[Metric]:
        return [GaugeMetricFamily(*item) for item in self._documentation.items()]

    def collect(self) -> Iterable[Metric]:
        reading = asyncio.run_coroutine_threadsafe(self._read(), self._loop)
        families: dict[str, GaugeMetricFamily] = {}
        try:
            for now in reading.result(READ_TIMEOUT):
                family = families.setdefault(
                    now.name,
                    GaugeMetricFamily(
                        now.name, self._documentation[now.name], labels=list(now.labels)
                    ),
                )
                family.add_metric(list(now.labels.values()), now.value)
        except Exception:  # counters must still be served
            reading.cancel()
            log.exception("gauges_not_read")
        return families.values()
