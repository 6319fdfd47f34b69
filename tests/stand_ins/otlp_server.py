"""A loopback collector that stores the spans it receives over OTLP, with their services."""

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any, Self

import grpc  # type: ignore[import-untyped]
from opentelemetry.proto.collector.trace.v1 import trace_service_pb2 as messages
from opentelemetry.proto.collector.trace.v1 import trace_service_pb2_grpc as services
from opentelemetry.proto.trace.v1.trace_pb2 import Span


class OtlpStandIn(services.TraceServiceServicer):
    """A collector; `spans` holds each span with the name of the service that exported it."""

    def __init__(self) -> None:
        self.spans: list[tuple[str, Span]] = []
        self._server = grpc.server(ThreadPoolExecutor(1))
        self.port: int = self._server.add_insecure_port("127.0.0.1:0")
        services.add_TraceServiceServicer_to_server(self, self._server)  # type: ignore[no-untyped-call]

    def __enter__(self) -> Self:
        self._server.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._server.stop(None).wait()

    def Export(  # noqa: N802 - OTLP's name
        self, request: Any, context: Callable[[], None]
    ) -> Any:
        del context
        for resource in request.resource_spans:
            about = {item.key: item.value.string_value for item in resource.resource.attributes}
            for scope in resource.scope_spans:
                self.spans += [(about["service.name"], span) for span in scope.spans]
        return messages.ExportTraceServiceResponse()
