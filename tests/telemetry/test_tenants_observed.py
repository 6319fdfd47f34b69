"""With accounts, each tenant has separate metrics, and traces cross its border."""

from pathlib import Path

import msgspec
import pytest

from local2.settings import TelemetrySettings
from local2.stack.app import open_stack
from telemetry.conftest import Spans
from telemetry.test_metrics import free_port, samples, scrape
from telemetry.test_traces import PARENT, TRACE
from tenant_agents import agent, token_for, with_tenants


@pytest.mark.usefixtures("worker_here")
async def test_metrics_are_per_tenant_and_a_trace_crosses_the_border(
    tmp_path: Path, spans: Spans
) -> None:
    port = free_port()
    settings = msgspec.structs.replace(
        with_tenants(tmp_path, "acme", "beta"),
        telemetry=TelemetrySettings(metrics_port=port, traces=True),
    )
    token = token_for(tmp_path, "acme", "ada")
    async with (
        open_stack(settings, with_generator=False) as stack,
        agent(tmp_path, stack.url, "acme") as acme,
    ):
        topic = {"topic": "user.cat", "content": "Mia"}
        headers = {"traceparent": f"00-{TRACE}-{PARENT}-01"}
        assert (await acme.call("save_topic", topic, token=token, headers=headers)).ok
        figures, exposition = await samples(port), await scrape(port)

    assert figures["local2_records", ("acme",)] == 1
    assert figures["local2_records", ("beta",)] == 0
    assert figures["local2_ready", ("beta",)] == 1
    for secret in ('"ada"', "Mia", "user.cat"):
        assert secret not in exposition

    traced = [one for one in spans() if one.context and f"{one.context.trace_id:032x}" == TRACE]
    handled = [one for one in traced if one.name == "process tool.request.save_topic"]
    assert [f"{one.parent.span_id:x}" for one in handled if one.parent] == [PARENT]
    stores = {(one.attributes or {}).get("gen_ai.memory.store.id") for one in traced}
    assert stores - {None} == {"acme"}
    assert not any("beta" in str((one.name, one.attributes)) for one in traced)
