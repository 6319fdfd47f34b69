"""A request is one trace through all processes, which contains no content and no names."""

import sys
from importlib.metadata import EntryPoints
from pathlib import Path

import msgspec
import nats
import pytest
from opentelemetry.sdk.trace import ReadableSpan

from calling import caller_named
from factories import Listen
from local2 import telemetry
from local2.bus.connection import BusMessage, connect
from local2.bus.receiving import instrument
from local2.client.queries import QueryClient
from local2.client.tools import call_tool
from local2.errors import ConfigError
from local2.protocol.envelope import decode
from local2.protocol.payloads import ToolResult
from local2.settings import GeneratorSettings, Settings, TelemetrySettings
from local2.stack.app import Stack, open_stack
from local2.telemetry import spans as telemetry_spans
from local2.telemetry import tracing
from local2.telemetry.spans import span_exporter
from stacks import CALLER, in_step, save, search, settings_in
from stand_ins.ollama_server import OllamaStandIn, Reply
from stand_ins.otlp_server import OtlpStandIn
from telemetry.conftest import Spans, span_paths
from waiting import eventually

TRACES, METRICS = TelemetrySettings(traces=True), TelemetrySettings(metrics_port=9464)
TRACE, PARENT = "0af7651916cd43dd8448eb211c80319c", "b7ad6b7169203331"
TURN = ("request query.received", "process query.received")
STORED = (
    *TURN,
    "request memory.turn",
    "process local2.deliver.memory_agent",
    "upsert_memory default",
    "ledger writer",
)


def with_model(settings: Settings, ollama: OllamaStandIn) -> Settings:
    generator = GeneratorSettings(chat="ollama", ollama_url=ollama.url)
    return msgspec.structs.replace(settings, generator=generator)


def the(spans: list[ReadableSpan], name: str) -> ReadableSpan:
    (found,) = (span for span in spans if span.name == name)
    return found


@pytest.mark.usefixtures("worker_here")
async def test_a_search_is_one_trace_from_the_client_to_ledger_and_worker(
    traced: Settings, spans: Spans
) -> None:
    async with open_stack(traced, with_generator=False) as stack:
        await save(stack.bus, "The cat is called Mia.")
        await in_step(stack.bus)
        async with connect(stack.url, name="client") as client:
            await search(client, "What is the cat called?")

    found = (
        "execute_tool search_memory",
        "process tool.request.search_memory",
        "search_memory default",
    )
    assert {
        (*found, "ledger reader"),
        (*found, "request vector.search", "process vector.search"),
    } <= span_paths(spans())
    searched = [dict(s.attributes or {}) for s in spans() if s.name == "search_memory default"]
    assert searched[-1] == {
        "gen_ai.operation.name": "search_memory",
        "gen_ai.provider.name": "local2",
        "gen_ai.memory.store.id": "default",
        "gen_ai.memory.record.count": 1,
    }
    saved = ("execute_tool save_memory", "process tool.request.save_memory")
    assert (*saved, "upsert_memory default", "ledger writer") in span_paths(spans())


@pytest.mark.usefixtures("worker_here")
async def test_a_turn_is_one_trace_from_question_through_model_and_tools_to_ledger(
    traced: Settings, spans: Spans, ollama: OllamaStandIn
) -> None:
    ollama.script(
        Reply(tool_calls=(("recall_topic", {"topic": "user.name"}),)), Reply(content="Richard.")
    )
    async with (
        open_stack(with_model(traced, ollama)) as stack,
        connect(stack.url, name="client") as bus,
        QueryClient(bus) as queries,
    ):
        await queries.ask("Who am I?", caller=CALLER)
        await eventually(lambda: STORED in span_paths(spans()))

    assert {
        (*TURN, "chat gemma4"),
        (*TURN, "execute_tool recall_topic", "process tool.request.recall_topic"),
    } <= {way[:4] for way in span_paths(spans())}
    chat_span = next(span for span in spans() if span.name == "chat gemma4")
    about = dict(chat_span.attributes or {})
    assert about.pop("gen_ai.usage.input_tokens")
    assert about.pop("gen_ai.usage.output_tokens")
    assert about == {
        "gen_ai.operation.name": "chat",
        "gen_ai.provider.name": "ollama",
        "gen_ai.request.model": "gemma4",
    }


@pytest.mark.usefixtures("worker_here")
async def test_no_span_contains_content_or_names_of_users(
    traced: Settings, spans: Spans, ollama: OllamaStandIn
) -> None:
    caller = caller_named("mallory", agent="spy", session_id="ocelot")
    ollama.script(
        Reply(tool_calls=(("recall", {"query": "zanzibar"}),)), Reply(content="Zanzibar it is.")
    )
    async with (
        open_stack(with_model(traced, ollama)) as stack,
        connect(stack.url, name="client") as bus,
        QueryClient(bus) as queries,
    ):
        asking = msgspec.structs.replace(caller, query_id="quokka")
        for tool, args in (
            ("save_memory", {"content": "I live in Zanzibar."}),
            ("save_topic", {"topic": "user.zanzibar", "content": "Zanzibar"}),
            ("recall_topic", {"topic": "zanzibar is no key"}),
            ("recall", {"zanzibar": "no argument"}),
            ("search_memory", {"query": "Zanzibar?"}),
        ):
            await call_tool(bus, tool, args, caller=asking)
        await queries.ask("Where do I live? In Zanzibar?", caller=caller)
        await eventually(lambda: STORED in span_paths(spans()))
        ollama.fail_next(status=400, error="Zanzibar is too much")
        await queries.ask("And in Zanzibar?", caller=caller)
        await _request(
            stack, {"traceparent": f"00-{TRACE}-{PARENT}-01", "tracestate": "a=zanzibar"}
        )

    exported = "\n".join(span.to_json() for span in spans()).casefold()
    assert [w for w in ("zanzibar", "mallory", "spy", "ocelot", "quokka") if w in exported] == []
    errors = {dict(span.attributes or {}).get("error.type") for span in spans()}
    assert {"invalid_arguments", "unavailable"} <= errors
    assert not any(span.events for span in spans())


@pytest.mark.usefixtures("worker_here")
async def test_another_client_joins_the_trace_that_its_header_names(
    traced: Settings, spans: Spans, logs: Path
) -> None:
    async with open_stack(traced, with_generator=False) as stack:
        await _request(stack, {"traceparent": f"00-{TRACE}-{PARENT}-01"})
        await _request(stack, {"traceparent": "no trace"})
        await _request(stack, {"traceparent": "x" * 600})

    here, *others = (s for s in spans() if s.name == "process tool.request.recall_topic")
    assert here.context
    assert here.parent
    assert f"{here.context.trace_id:x}".zfill(32) == TRACE
    assert f"{here.parent.span_id:x}" == PARENT
    assert len(others) == 2
    assert all(o.context and o.context.trace_id != here.context.trace_id for o in others)
    assert "traceparent header" not in logs.read_text(encoding="utf-8")


async def _request(stack: Stack, headers: dict[str, str]) -> None:
    """Send a request with these headers, as any client does."""
    client = await nats.connect(stack.url)
    body = b'{"payload":{"args":{"topic":"user.name"}}}'
    answer = await client.request("tool.request.recall_topic", body, timeout=5, headers=headers)
    assert decode(answer.data, ToolResult).payload.ok
    await client.close()


async def test_a_message_as_large_as_the_bus_allows_is_sent_without_the_header(
    nats_url: str, listen: Listen, spans: Spans
) -> None:
    async with tracing("test", on=True):
        received = await listen("test.traced")
        async with connect(nats_url, name="test") as bus:

            async def answer(_: object) -> None:
                await bus.publish("test.traced", b"small")
                await bus.publish("test.traced", b"x" * bus.client.max_payload)

            await bus.subscribe("test.ask", instrument("test", "test.ask", answer))
            await bus.flush()
            await bus.publish("test.ask", b"")
            await eventually(lambda: len(received) == 2)

    assert [set(message.headers or {}) for message in received] == [{"traceparent"}, set()]
    assert [span.name for span in spans()] == ["process test.ask"]


async def test_what_is_published_soon_carries_no_trace(
    nats_url: str, listen: Listen, spans: Spans
) -> None:
    async with tracing("test", on=True):
        received = await listen("test.traced")
        async with connect(nats_url, name="test") as bus:

            async def answer(message: BusMessage) -> None:
                bus.publish_soon("test.traced", lambda: message.data)

            await bus.subscribe("test.ask", instrument("test", "test.ask", answer))
            await bus.client.publish("test.ask", b"asked")
            await eventually(lambda: len(received) == 1)

    assert [message.headers for message in received] == [None]
    assert [span.name for span in spans()] == ["process test.ask"]


@pytest.mark.usefixtures("worker_here")
async def test_by_default_nothing_is_measured_or_exported_and_no_header_is_sent(
    tmp_path: Path, spans: Spans
) -> None:
    async with (
        open_stack(settings_in(tmp_path), with_generator=False) as stack,
        connect(stack.url, name="subscriber") as subscriber,
    ):
        headers: list[set[str]] = []

        async def receive(message: object) -> None:
            headers.append(set(getattr(message, "headers", None) or {}))

        await subscriber.subscribe(">", receive)
        await subscriber.flush()
        assert (telemetry.tracer, telemetry.meter) == (None, None)
        await save(stack.bus, "The cat is called Mia.")
        await in_step(stack.bus)

    assert spans() == []
    assert headers
    assert not any("traceparent" in names for names in headers)


def test_an_exporter_that_is_not_installed_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OTEL_TRACES_EXPORTER", "pigeon")

    with pytest.raises(ConfigError, match="pigeon") as refused:
        span_exporter()
    assert "console" in str(refused.value.remedy)


def test_without_an_exporter_for_otlp_the_error_names_the_extra(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.delenv("OTEL_TRACES_EXPORTER", raising=False)
    monkeypatch.setattr(telemetry_spans, "entry_points", lambda **_: EntryPoints())

    with pytest.raises(ConfigError, match="not installed") as refused:
        span_exporter()
    assert "local2-memory[telemetry]" in str(refused.value.remedy)


@pytest.mark.parametrize(
    ("settings", "missing", "importing"),
    [
        pytest.param(TRACES, "opentelemetry.context", "spans", id="traces"),
        pytest.param(METRICS, "prometheus_client", "instruments", id="metrics"),
    ],
)
async def test_without_the_extra_a_start_that_needs_it_is_refused(
    settings: TelemetrySettings,
    missing: str,
    importing: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.delitem(sys.modules, f"local2.telemetry.{importing}", raising=False)
    monkeypatch.setitem(sys.modules, missing, None)
    chosen = msgspec.structs.replace(settings_in(tmp_path), telemetry=settings)

    with pytest.raises(ConfigError, match=missing) as refused:
        async with open_stack(chosen, with_generator=False):
            pass
    assert "local2-memory[telemetry]" in str(refused.value.remedy)


async def test_processes_export_one_trace_to_the_collector_in_the_environment(
    traced: Settings, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with OtlpStandIn() as collector:
        monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", f"http://127.0.0.1:{collector.port}")
        async with open_stack(traced, log_folder=tmp_path / "logs", with_generator=False) as stack:
            await save(stack.bus, "The cat is called Mia.")
            await in_step(stack.bus)
            async with connect(stack.url, name="client") as client:
                await search(client, "What is the cat called?")

    trace_ids = {
        (service, span.name): span.trace_id
        for service, span in collector.spans
        if service == "local2.vector_worker" or not span.parent_span_id
    }
    assert (
        trace_ids["local2.vector_worker", "process vector.search"]
        == trace_ids["local2", "execute_tool search_memory"]
    )


@pytest.mark.timeout(25)
async def test_a_missing_collector_is_logged_and_delays_nothing(
    logs: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", "http://127.0.0.1:1")
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_TIMEOUT", "1000")
    monkeypatch.setattr(telemetry_spans, "STOP_PATIENCE", 0.1)

    async with tracing("test", on=True):
        with telemetry.memory_operation("search_memory", "default"):
            pass

    await eventually(lambda: "traces_not_exported" in logs.read_text(encoding="utf-8"))
