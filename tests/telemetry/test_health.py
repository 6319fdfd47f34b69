"""`memory.ready` reports whether the memory serves, `memory.health` also what is missing."""

from pathlib import Path

import msgspec
import pytest

from factories import ConnectBus, StartWorker
from local2.agents import health
from local2.agents.health import NOT_SERVED, HealthAgent
from local2.bus import lease as leases
from local2.bus.connection import BusMessage, Connection, connect
from local2.bus.lease import Holder, Lease
from local2.bus.server import EmbeddedServer
from local2.errors import StorageError
from local2.ledger.engines.sqlite.database import Database
from local2.ledger.operations.backlog import TaskQueue
from local2.memory.tenant import Memories, Memory
from local2.protocol.envelope import decode
from local2.protocol.maintenance import Health, Readiness, TaskCounts
from local2.stack import serving
from local2.stack.app import open_stack
from stacks import health_of, settings_in
from waiting import eventually


async def readiness_of(bus: Connection) -> Readiness:
    return decode((await bus.request("memory.ready", b"")).data, Readiness).payload


def agent(bus: Connection, memory: Memory, *, serves: bool = True) -> HealthAgent:
    return HealthAgent(bus, Memories(memory), serves=lambda: serves)


async def test_without_a_vector_worker_the_memory_is_ready_but_degraded(
    bus: Connection, memory: Memory, start_worker: StartWorker
) -> None:
    async with agent(bus, memory):
        assert await readiness_of(bus) == Readiness(ready=True)
        now = await health_of(bus)
        assert now.status == "degraded"
        assert "vector worker" in now.reasons[0]

        await start_worker()

        await eventually(lambda: health_of(bus), lambda found: found.status == "ok")


async def test_gauges_are_read_while_the_vector_worker_hangs(
    bus: Connection, memory: Memory, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def hang(_: BusMessage) -> None: ...

    monkeypatch.setattr(health, "GAUGES_PATIENCE", 0.1)
    await bus.subscribe("vector.status", hang)

    read = {(one.name, one.value) for one in await agent(bus, memory).gauges()}

    assert {("local2_ready", 1), ("local2_degraded", 1), ("local2_tasks_set_aside", 0)} <= read


async def test_gauges_of_a_ledger_that_fails_while_they_are_read_say_so(
    bus: Connection, memory: Memory, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def fail(_: TaskQueue) -> list[TaskCounts]:
        raise StorageError("The disk is gone.")

    monkeypatch.setattr(TaskQueue, "counts", fail)

    read = {(one.name, one.value) for one in await agent(bus, memory).gauges()}

    assert read == {("local2_ready", 1), ("local2_degraded", 1)}


async def test_turns_that_cannot_be_stored_degrade_the_memory(
    bus: Connection, memory: Memory, start_worker: StartWorker
) -> None:
    await start_worker()
    full = "Turns cannot be stored: the disk is full."
    async with HealthAgent(bus, Memories(memory), serves=lambda: True, turns_problem=lambda: full):
        assert full in (await health_of(bus)).reasons


async def test_a_memory_whose_ledger_cannot_be_read_is_not_ready(
    bus: Connection, memory: Memory, database: Database
) -> None:
    async with agent(bus, memory):
        await database._reader.stop()

        readiness = await readiness_of(bus)
        now = await health_of(bus)

    assert not readiness.ready
    assert "closed" in readiness.reasons[0]
    assert now == Health(status="unavailable", reasons=readiness.reasons)


async def test_the_serving_stack_answers_before_one_that_does_not_serve(
    connect_bus: ConnectBus, memory: Memory
) -> None:
    bus, other = await connect_bus(), await connect_bus()
    async with agent(bus, memory, serves=False):
        assert await readiness_of(bus) == Readiness(ready=False, reasons=[NOT_SERVED])
        assert await health_of(bus) == Health(status="unavailable", reasons=[NOT_SERVED])
        async with agent(other, memory):
            assert await readiness_of(bus) == Readiness(ready=True)


@pytest.mark.usefixtures("worker_here")
async def test_a_stack_without_its_lease_is_not_ready_until_it_regains_it(
    tmp_path: Path, server: EmbeddedServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    for module in (leases, serving):
        monkeypatch.setattr(module, "RENEWAL_INTERVAL", 0.1)
    settings = settings_in(tmp_path, bus_url=server.url)

    async def ready() -> bool:
        return (await readiness_of(bus)).ready

    async with (
        open_stack(settings, with_generator=False),
        connect(server.url, name="client") as bus,
    ):
        assert await ready()
        bucket = await bus.client.jetstream().key_value(leases.BUCKET)
        (tmp_path / "other").mkdir()
        holder = Holder.for_folder(tmp_path / "other")
        await bucket.put(leases.KEY, msgspec.json.encode(holder))
        other = Lease(bus, holder, in_memory=False)
        await other.acquire()

        async def unready() -> bool:
            await other.renew()
            return not await ready()

        await eventually(unready, within=30)
        assert (await readiness_of(bus)).reasons == [NOT_SERVED]
        await other.release()
        await eventually(ready, within=30)
