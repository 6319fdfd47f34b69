"""One stack at a time serves a bus: the lease excludes others, and its holder obeys it."""

import asyncio
import os
import signal
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import msgspec
import pytest
from nats.aio.msg import Msg
from nats.js.kv import KeyValue

from factories import ConnectBus
from local2.bus import lease as leases
from local2.bus import participant as participants
from local2.bus.connection import BusMessage, Connection
from local2.bus.lease import Holder, Lease
from local2.bus.participant import Participant
from local2.bus.server import EmbeddedServer
from local2.errors import BusError, LeaseHeldError
from local2.stack import serving as servings
from local2.stack.serving import Serving
from waiting import eventually
from working import working


@pytest.fixture
def nats_url(server: EmbeddedServer) -> str:
    """Return the URL of a separate server: leases are shorter here than in other tests."""
    return server.url


@pytest.fixture
def short_leases(monkeypatch: pytest.MonkeyPatch) -> None:
    for module in (leases, servings):
        monkeypatch.setattr(module, "LEASE_SECONDS", 3.0)
        monkeypatch.setattr(module, "RENEWAL_INTERVAL", 0.1)
        monkeypatch.setattr(module, "ANSWER_TIMEOUT", 0.5)


def holder(tmp_path: Path, name: str) -> Holder:
    folder = tmp_path / name
    folder.mkdir(exist_ok=True)
    return Holder.for_folder(folder)


def lease(bus: Connection, tmp_path: Path, name: str) -> Lease:
    return Lease(bus, holder(tmp_path, name), in_memory=False)


async def is_taken_by(lease_: Lease) -> bool:
    try:
        await lease_.acquire()
    except LeaseHeldError:
        return False
    return True


async def give_lease_to(other: Lease, client: Connection) -> None:
    bucket = await client.client.jetstream().key_value(leases.BUCKET)

    async def is_taken() -> bool:
        await bucket.purge(leases.KEY)  # its holder may have it again before the other
        return await is_taken_by(other)

    await eventually(is_taken)


async def test_one_of_many_contenders_gets_the_lease_and_the_others_are_told_the_holder(
    connect_bus: ConnectBus, tmp_path: Path
) -> None:
    contenders = [lease(await connect_bus(), tmp_path, f"folder{n}") for n in range(8)]

    outcomes = await asyncio.gather(
        *(lease_.acquire() for lease_ in contenders), return_exceptions=True
    )

    (winner,) = [n for n, outcome in enumerate(outcomes) if outcome is None]
    refused = [outcome for outcome in outcomes if outcome is not None]
    assert len(refused) == 7
    for error in refused:
        assert isinstance(error, LeaseHeldError)
        assert str(tmp_path / f"folder{winner}") in error.message
        assert f"process {os.getpid()}" in error.message
        assert "config/bus.yaml" in str(error.remedy)


async def test_a_released_lease_is_free_at_once(bus: Connection, tmp_path: Path) -> None:
    first, second = lease(bus, tmp_path, "first"), lease(bus, tmp_path, "second")
    await first.acquire()
    assert not await is_taken_by(second)

    await first.release()

    assert await is_taken_by(second)
    assert not await is_taken_by(first)


async def test_a_lease_that_stacks_hold_together_is_left_to_the_others(
    bus: Connection, tmp_path: Path
) -> None:
    ours = msgspec.structs.replace(holder(tmp_path, "ours"), ledger="of both")
    first, second = (Lease(bus, ours, in_memory=False) for _ in range(2))
    await first.acquire()
    await second.acquire()

    await second.release()

    assert not await is_taken_by(lease(bus, tmp_path, "other"))


async def test_the_lease_of_a_killed_holder_expires(
    bus: Connection, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(leases, "LEASE_SECONDS", 3.0)
    await lease(bus, tmp_path, "killed").acquire()
    second = lease(bus, tmp_path, "second")

    assert not await is_taken_by(second)
    await eventually(lambda: is_taken_by(second), within=30)


async def test_the_next_process_on_the_same_folder_gets_the_lease_at_once(
    bus: Connection, tmp_path: Path
) -> None:
    former = msgspec.structs.replace(holder(tmp_path, "folder"), pid=os.getpid() + 1)
    killed, again = Lease(bus, former, in_memory=False), lease(bus, tmp_path, "folder")
    await killed.acquire()

    await again.acquire()

    await again.renew()
    assert not await is_taken_by(lease(bus, tmp_path, "another"))


async def test_a_lease_renewed_while_it_is_taken_over_is_taken_at_the_next_attempt(
    bus: Connection, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ending = msgspec.structs.replace(holder(tmp_path, "folder"), pid=os.getpid() + 1)
    former = Lease(bus, ending, in_memory=False)
    await former.acquire()
    get, renewals = KeyValue.get, [former.renew]

    async def get_before_a_renewal(bucket: KeyValue, key: str) -> KeyValue.Entry:
        entry = await get(bucket, key)
        while renewals:
            await renewals.pop()()
        return entry

    monkeypatch.setattr(KeyValue, "get", get_before_a_renewal)
    await lease(bus, tmp_path, "folder").acquire()

    assert renewals == []


async def test_a_moved_folder_leaves_its_lease_to_no_new_folder_of_its_name(
    bus: Connection, tmp_path: Path
) -> None:
    await lease(bus, tmp_path, "folder").acquire()
    (tmp_path / "folder").rename(tmp_path / "moved")

    assert not await is_taken_by(lease(bus, tmp_path, "folder"))


class Responder(Participant):
    def __init__(self, bus: Connection) -> None:
        super().__init__(bus, name="serves", description="Answers.")
        self.serve("never.ends", self._never_end)
        self.begun = asyncio.Event()

    async def _never_end(self, _: BusMessage) -> None:
        self.begun.set()
        await asyncio.Event().wait()


@asynccontextmanager
async def serving(bus: Connection, lease_: Lease) -> AsyncIterator[list[Responder]]:
    """Yield the participants made so far: each time the lease is regained, one is added."""
    made: list[Responder] = []

    async def make() -> list[Responder]:
        made.append(Responder(bus))
        return made[-1:]

    async with Serving(lease_, make) as running, working(running):
        yield made


async def is_served(bus: Connection) -> bool:
    try:
        await bus.request("$SRV.PING.serves", b"", timeout=1)
    except BusError:
        return False
    return True


@pytest.mark.usefixtures("short_leases")
async def test_a_holder_that_cannot_renew_stops_serving_until_it_can(
    connect_bus: ConnectBus, server: EmbeddedServer, tmp_path: Path
) -> None:
    """It decides by its own clock, since the server does not answer."""
    bus, client = await connect_bus(), await connect_bus()
    lease_ = lease(bus, tmp_path, "first")
    await lease_.acquire()
    async with serving(bus, lease_) as made:
        assert await is_served(client)
        os.kill(server.pid, signal.SIGSTOP)
        try:
            await eventually(lambda: not made[-1]._subscriptions, within=30)
        finally:
            os.kill(server.pid, signal.SIGCONT)

        await eventually(lambda: len(made) == 2, within=30)
        await eventually(lambda: is_served(client), within=30)


@pytest.mark.usefixtures("short_leases")
async def test_stacks_that_share_a_ledger_serve_until_another_has_their_lease(
    connect_bus: ConnectBus, server: EmbeddedServer, tmp_path: Path
) -> None:
    """JetStream may be away for longer than a lease lasts: nothing depends on it but turns."""
    bus, client = await connect_bus(), await connect_bus()
    ours = msgspec.structs.replace(holder(tmp_path, "ours"), ledger="of both")
    lease_, other = Lease(bus, ours, in_memory=False), lease(client, tmp_path, "other")
    await lease_.acquire()
    async with serving(bus, lease_) as made:
        os.kill(server.pid, signal.SIGSTOP)
        try:
            await eventually(lambda: time.monotonic() > lease_._until + 1, within=30)
        finally:
            os.kill(server.pid, signal.SIGCONT)
        await eventually(lambda: is_served(client), within=30)
        assert len(made) == 1

        await give_lease_to(other, client)
        await eventually(lambda: not made[-1]._subscriptions, within=30)


@pytest.mark.usefixtures("short_leases")
async def test_a_request_that_never_ends_does_not_delay_the_lease(
    connect_bus: ConnectBus, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(participants, "STOP_GRACE", 0.1)
    bus, client = await connect_bus(), await connect_bus()
    lease_, other = lease(bus, tmp_path, "first"), lease(client, tmp_path, "other")
    await lease_.acquire()
    async with serving(bus, lease_) as made:
        await client.publish("never.ends", b"")
        await made[-1].begun.wait()
        await give_lease_to(other, client)
        await eventually(lambda: not made[-1]._subscriptions, within=30)
        await other.release()

        await eventually(lambda: is_served(client), within=30)


@pytest.mark.usefixtures("short_leases")
async def test_a_lost_lease_is_regained_from_a_server_that_has_become_slow(
    connect_bus: ConnectBus, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each answer takes longer than a renewal may take."""
    for module in (leases, servings):
        monkeypatch.setattr(module, "LEASE_SECONDS", 4.0)
        monkeypatch.setattr(module, "ANSWER_TIMEOUT", 0.25)
    bus, client = await connect_bus(), await connect_bus()
    lease_ = lease(bus, tmp_path, "first")
    await lease_.acquire()
    request = bus.client.request

    async def slowly(*args: Any, **options: Any) -> Msg:
        await asyncio.sleep(1.2 * leases.ANSWER_TIMEOUT)
        return await request(*args, **options)

    async with serving(bus, lease_) as made:
        monkeypatch.setattr(bus.client, "request", slowly)
        await eventually(lambda: not made[-1]._subscriptions, within=30)

        await eventually(lambda: len(made) >= 2, within=60)
        await eventually(lambda: is_served(client), within=30)


@pytest.mark.usefixtures("short_leases")
async def test_all_stop_receiving_at_once_although_one_still_ends_a_request(
    connect_bus: ConnectBus, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(participants, "STOP_GRACE", 1.0)
    bus, client = await connect_bus(), await connect_bus()
    lease_, other = lease(bus, tmp_path, "first"), lease(client, tmp_path, "other")
    await lease_.acquire()
    first, last = Responder(bus), Responder(bus)  # the last that starts is stopped first
    both = Serving(lease_, lambda: asyncio.sleep(0, [first, last]))
    async with both as running, working(running):
        await client.publish("never.ends", b"")
        await last.begun.wait()
        await give_lease_to(other, client)
        await eventually(lambda: not last._subscriptions, within=30)
        assert not first._subscriptions
