"""Slots are assigned in turn by tenant, then by user, in each owner's order, and are bounded."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import AbstractContextManager, AsyncExitStack, ExitStack

import pytest

from calling import caller_named
from local2.admission import Admission, FairSlots, Owner
from local2.bus.connection import Connection
from local2.bus.tool_host import ToolHost
from local2.client.tools import call_tool
from local2.errors import OverloadedError
from local2.settings import LimitSettings, SlotLimits
from note_tool import Notes
from waiting import eventually


class Work:
    """Tasks that hold a slot until they may finish, and record the order they got one in."""

    def __init__(self, slots: FairSlots) -> None:
        self._slots = slots
        self._may_finish = asyncio.Semaphore(0)
        self._tasks: list[asyncio.Task[None]] = []
        self.begun: list[str] = []

    async def submit(self, *names: str) -> list[asyncio.Task[None]]:
        """Start tasks; a name is an optional capitalised tenant, a user's letter and a number."""
        new = [asyncio.create_task(self._run(name)) for name in names]
        self._tasks += new
        await asyncio.sleep(0)
        return new

    async def finish(self, count: int) -> None:
        """Let `count` tasks finish one after the other, so that the next to begin is known."""
        for _ in range(count):
            self._may_finish.release()
            for _ in range(4):
                await asyncio.sleep(0)

    async def cancel(self) -> None:
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    async def _run(self, name: str) -> None:
        with self._slots.admitted(_owner(name)):
            async with self._slots.slot(_owner(name)):
                self.begun.append(name)
                await self._may_finish.acquire()


def _owner(name: str) -> Owner:
    letters = name.rstrip("0123456789")
    return letters[:-1] or "acme", letters[-1]


@pytest.fixture
async def one_at_a_time() -> AsyncIterator[Work]:
    work = Work(FairSlots(SlotLimits(requests=1)))
    yield work
    await work.cancel()


async def test_waiting_owners_are_served_in_turn_and_each_in_its_own_order(
    one_at_a_time: Work,
) -> None:
    await one_at_a_time.submit("a1", "a2", "a3", "a4", "b1", "c1", "b2")
    await one_at_a_time.finish(7)

    assert one_at_a_time.begun == ["a1", "a2", "b1", "c1", "a3", "b2", "a4"]


async def test_a_late_owner_waits_for_one_request_of_the_others_not_for_all(
    one_at_a_time: Work,
) -> None:
    await one_at_a_time.submit(*(f"a{n}" for n in range(200)))
    await one_at_a_time.finish(5)
    await one_at_a_time.submit("b0")
    await one_at_a_time.finish(2)

    assert one_at_a_time.begun[-2:] == ["a6", "b0"]


async def test_200_users_of_a_tenant_delay_another_tenants_only_user_by_one(
    one_at_a_time: Work,
) -> None:
    letters = [f"Big{chr(0x4E00 + n)}1" for n in range(200)]
    await one_at_a_time.submit(*letters, "Tinyx1", "Tinyx2")
    await one_at_a_time.finish(4)

    assert one_at_a_time.begun == [letters[0], letters[1], "Tinyx1", letters[2], "Tinyx2"]


async def test_one_tenant_leaves_slots_to_the_others() -> None:
    work = Work(FairSlots(SlotLimits(requests=4, tenant_requests=3)))
    await work.submit("Aa1", "Ab1", "Ac1", "Ad1", "Ba1")

    assert work.begun == ["Aa1", "Ab1", "Ac1", "Ba1"]
    await work.finish(1)
    assert work.begun[-1] == "Ad1"
    await work.cancel()


@pytest.mark.parametrize(
    "bounds",
    [
        pytest.param(SlotLimits(tenant_waiting=3), id="messages"),
        pytest.param(SlotLimits(tenant_waiting_bytes=30), id="bytes"),
    ],
)
def test_all_users_of_a_tenant_leave_room_to_other_tenants(bounds: SlotLimits) -> None:
    slots = FairSlots(bounds)
    with ExitStack() as admitted:
        for user in "abc":
            admitted.enter_context(slots.admitted(("acme", user), 10))
        with pytest.raises(OverloadedError) as refused, slots.admitted(("acme", "d"), 10):
            pass
        admitted.enter_context(slots.admitted(("other", "d"), 10))

    assert refused.value.retry_after is not None
    assert refused.value.retry_after > 0


async def test_one_owner_leaves_slots_to_the_others() -> None:
    work = Work(FairSlots(SlotLimits(requests=4, user_requests=3)))
    await work.submit("a1", "a2", "a3", "a4", "b1")

    assert work.begun == ["a1", "a2", "a3", "b1"]
    await work.cancel()


async def test_a_cancelled_task_frees_its_slot_and_its_place_in_the_queue(
    one_at_a_time: Work,
) -> None:
    (running, waiting, _) = await one_at_a_time.submit("a1", "a2", "a3")
    waiting.cancel()
    running.cancel()
    await asyncio.wait([running, waiting])
    await asyncio.sleep(0)

    assert one_at_a_time.begun == ["a1", "a3"]


async def test_a_task_cancelled_while_it_is_given_a_slot_frees_it(
    one_at_a_time: Work,
) -> None:
    (running, waiting, _) = await one_at_a_time.submit("a1", "a2", "a3")
    running.cancel()
    await asyncio.sleep(0)  # a2 has been given the slot, but has not run yet
    waiting.cancel()
    await asyncio.wait([running, waiting])
    await asyncio.sleep(0)

    assert one_at_a_time.begun == ["a1", "a3"]


@pytest.mark.parametrize(
    ("bounds", "sizes"),
    [
        pytest.param(SlotLimits(user_waiting=2, waiting=4), [0, 0], id="messages"),
        pytest.param(SlotLimits(user_waiting_bytes=20, waiting_bytes=40), [10, 10], id="bytes"),
    ],
)
def test_one_user_is_admitted_only_a_part_of_all_waiting_requests(
    bounds: SlotLimits, sizes: list[int]
) -> None:
    slots = FairSlots(bounds)
    with ExitStack() as admitted:
        for owner in ("a", "b"):
            for size in sizes:
                admitted.enter_context(slots.admitted(("acme", owner), size))
            with pytest.raises(OverloadedError), slots.admitted(("acme", owner), 10):
                pass
        with pytest.raises(OverloadedError), slots.admitted(("acme", "c"), 10):
            pass


def test_a_finished_request_makes_room_again() -> None:
    slots = FairSlots(SlotLimits(waiting=2))
    for _ in range(3):
        with slots.admitted(("acme", "a")):
            pass


async def test_a_user_with_200_requests_waiting_delays_another_user_by_one(
    bus: Connection, notes: Notes
) -> None:
    class CountingAdmission(Admission):
        received = 0

        def admitted(self, owner: Owner, data: bytes) -> AbstractContextManager[None]:
            self.received += 1
            return super().admitted(owner, data)

    notes.may_finish.clear()
    admission = CountingAdmission(LimitSettings(requests=1))
    async with AsyncExitStack() as running:
        await running.enter_async_context(ToolHost(bus, notes.tool(), admission=admission))
        calls = [
            asyncio.create_task(
                call_tool(
                    bus,
                    "note",
                    {"text": f"{n}"},
                    caller=caller_named(user),
                    timeout=30,
                )
            )
            for n, user in enumerate(["eve"] * 200 + ["ann"])
        ]
        await eventually(lambda: admission.received == len(calls))
        notes.may_finish.set()
        answers = await asyncio.gather(*calls)

    assert all(answer.ok for answer in answers)
    assert [caller.user for caller, _ in notes.noted].index("ann") <= 2
    texts = [int(text) for caller, text in notes.noted if caller.user == "eve"]
    assert texts == sorted(texts)


async def test_a_sole_request_of_any_size_is_admitted_but_no_second_one_beside_it() -> None:
    slots = FairSlots(SlotLimits(user_waiting_bytes=20))
    owner = ("default", "ada")

    with slots.admitted(owner, 100), pytest.raises(OverloadedError):
        slots.admit(owner, 1)
    slots.admit(owner, 100)
