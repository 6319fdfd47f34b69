"""Prometheus reads the memory's state and activity; the dashboard queries only these metrics."""

import asyncio
import json
import re
import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from urllib.request import urlopen

import msgspec
import pytest
from prometheus_client.parser import text_string_to_metric_families

from local2 import telemetry
from local2.client.queries import QueryClient
from local2.client.tools import call_tool
from local2.errors import ConfigError
from local2.settings import GeneratorSettings, Settings, TelemetrySettings
from local2.stack.app import Stack, open_stack
from local2.telemetry import GaugeReading, metering
from local2.telemetry.instruments import Meter
from stacks import CALLER, in_step, save, search, settings_in
from stand_ins.ollama_server import OllamaStandIn
from waiting import eventually

DOCS = Path(__file__).parents[2] / "docs"
NAME = re.compile(r"\b(?:local2|process)_[a-z0-9_]+")
SUFFIXES = re.compile(r"_(?:bucket|sum|count|total)$")

Samples = dict[tuple[str, tuple[str, ...]], float]


async def scrape(port: int) -> str:
    def read() -> str:
        with urlopen(f"http://127.0.0.1:{port}/metrics", timeout=10) as answer:
            text: bytes = answer.read()
            return text.decode()

    return await asyncio.to_thread(read)


async def samples(port: int) -> Samples:
    """Return the samples by name and label values, in the order of the labels' names."""
    return {
        (sample.name, tuple(sample.labels.values())): sample.value
        for family in text_string_to_metric_families(await scrape(port))
        for sample in family.samples
        if "le" not in sample.labels
    }


def free_port() -> int:
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        port: int = one.getsockname()[1]
        return port


@asynccontextmanager
async def measured_stack(
    settings: Settings, ollama: OllamaStandIn | None = None
) -> AsyncIterator[tuple[Stack, int]]:
    port = free_port()
    chat = GeneratorSettings(chat="ollama", ollama_url=ollama.url) if ollama else settings.generator
    wanted = msgspec.structs.replace(
        settings, telemetry=TelemetrySettings(metrics_port=port), generator=chat
    )
    async with open_stack(wanted) as stack:
        yield stack, port


@pytest.mark.usefixtures("worker_here")
async def test_the_endpoint_exports_requests_errors_ledger_models_cache_and_index(
    tmp_path: Path, ollama: OllamaStandIn
) -> None:
    async with (
        measured_stack(settings_in(tmp_path), ollama) as (stack, port),
        QueryClient(stack.bus) as queries,
    ):
        await save(stack.bus, "The cat is called Mia.")
        await in_step(stack.bus)
        for _ in range(2):
            await search(stack.bus, "What is the cat called?")
        await call_tool(stack.bus, "recall_topic", {"topic": "no key"}, caller=CALLER)
        await queries.ask("Who am I?", caller=CALLER)
        ollama.fail_next()
        await queries.ask("Who are you?", caller=CALLER)

        async def stored() -> bool:
            return (await samples(port))["local2_turns_waiting", ("default",)] == 0

        await eventually(stored)
        await in_step(stack.bus)
        now = await samples(port)

    search_memory = ("search_memory", "tool.request.search_memory")
    assert now["local2_request_seconds_count", search_memory] >= 3
    assert now["local2_requests_in_progress", search_memory] == 0
    assert now["local2_tool_errors_total", ("invalid_arguments", "recall_topic")] == 1
    assert now["local2_ledger_seconds_count", ("writer",)] >= 2
    assert now["local2_ledger_jobs", ("writer",)] >= 0
    assert now["local2_model_seconds_count", ("gemma4", "chat")] >= 2
    assert now["local2_model_errors_total", ("ModelError", "gemma4")] == 1
    assert now["local2_question_vectors_total", ("true",)] >= 1
    assert now["local2_question_vectors_total", ("false",)] >= 1
    assert now["local2_ready", ("default",)] == 1
    assert now["local2_degraded", ("default",)] == 0
    assert now["local2_records", ("default",)] >= 3
    assert now["local2_index_waiting", ("default",)] == 0
    assert now["local2_index_lag_seconds", ("default",)] == 0
    assert now["local2_dead_letters", ("default",)] == 0
    assert now["local2_turns_waiting", ("default",)] == 0
    assert now["local2_tasks_set_aside", ("index", "default")] == 0
    assert now["process_resident_memory_bytes", ()] > 0


@pytest.mark.usefixtures("worker_here")
async def test_the_dashboard_and_the_manual_name_existing_metrics(tmp_path: Path) -> None:
    async with measured_stack(settings_in(tmp_path)) as (_, port):
        text = await scrape(port)
    served = {family.name for family in text_string_to_metric_families(text)}

    dashboard = json.loads((DOCS / "grafana.json").read_text(encoding="utf-8"))
    queried = {
        name
        for panel in dashboard["panels"]
        for target in panel["targets"]
        for name in NAME.findall(target["expr"])
    }
    manual = (DOCS / "operations.md").read_text(encoding="utf-8")
    monitoring = manual[manual.index("## Monitoring") :].split("\n## ")[0]
    documented = set(NAME.findall(monitoring))

    assert queried
    assert {name for name in queried | documented if SUFFIXES.sub("", name) not in served} == set()
    created = {name for name in served if name.endswith("_created")}
    ours = {name for name in served - created if name.startswith("local2_")}
    assert ours - {SUFFIXES.sub("", name) for name in documented} == set()


async def test_an_unreadable_gauge_does_not_hide_the_counters() -> None:
    async def fail() -> list[GaugeReading]:
        raise OSError

    meter = Meter()
    meter.tool_errors.labels("recall", "internal").inc()
    async with meter.serve(TelemetrySettings(), {"local2_ready": "…"}, fail) as port:
        now = await samples(port)

    assert now["local2_tool_errors_total", ("internal", "recall")] == 1


@pytest.mark.parametrize("host", ["0.0.0.0", "192.0.2.1", "example.com", ""])  # noqa: S104
async def test_an_address_that_other_machines_can_reach_is_refused(host: str) -> None:
    settings = TelemetrySettings(metrics_host=host)

    with pytest.raises(ConfigError, match="metrics_host") as refused:
        async with Meter().serve(settings, {}, _nothing):
            pass
    assert "metrics_beyond_loopback" in str(refused.value.remedy)


async def test_an_address_that_other_machines_can_reach_can_be_allowed() -> None:
    settings = TelemetrySettings(metrics_host="0.0.0.0", metrics_beyond_loopback=True)  # noqa: S104

    async with Meter().serve(settings, {}, _nothing) as port:
        assert "process_start_time_seconds" in await scrape(port)


async def test_a_port_in_use_is_refused() -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        settings = TelemetrySettings(metrics_port=taken.getsockname()[1])
        with pytest.raises(ConfigError, match="cannot be served"):
            async with Meter().serve(settings, {}, _nothing):
                pass


async def test_metrics_end_with_their_context() -> None:
    with metering(on=True):
        assert telemetry.meter is not None
    assert telemetry.meter is None


async def _nothing() -> list[GaugeReading]:
    return []
