"""Subjects between the stack's processes are closed to everybody else."""

import json
from pathlib import Path

import pytest

from local2.bus.connection import BusMessage, connect
from local2.protocol import subjects
from local2.stack.app import Stack, open_stack
from stacks import in_step, save, search, settings_in, status
from tiny_cross_encoder import write_cross_encoder
from waiting import eventually

GOLD = "The chemical symbol of gold is Au."
ASKED = [
    subjects.VECTOR_SEARCH,
    subjects.VECTOR_UPSERT,
    subjects.VECTOR_DELETE,
    subjects.VECTOR_IDS,
    subjects.VECTOR_LOST,
    subjects.VECTOR_STATUS,
    subjects.VECTOR_RESET,
    subjects.VECTOR_NEXT,
    subjects.VECTOR_RERANK,
    subjects.VECTOR_RUNNING,
]
REQUEST = b'{"payload": {"text": "gold", "limit": 5, "offset": 0, "ids": [], "items": []}}'


async def refusals(stack: Stack, name: str) -> int:
    """Return how many requests a participant has refused, as `nats micro stats` shows."""
    answer = await stack.bus.request(subjects.discovery("STATS", name), b"")
    endpoints = json.loads(answer.data)["endpoints"]
    return sum(one["num_errors"] for one in endpoints if one.get("last_error") == "forbidden")


@pytest.mark.usefixtures("worker_here")
async def test_a_client_without_the_secret_is_forbidden_every_inner_subject(
    tmp_path: Path,
) -> None:
    """A made-up signature is refused as well, and no index is emptied."""
    settings = settings_in(tmp_path, reranker="onnx:tiny", reranker_timeout=30)
    write_cross_encoder(settings.memory.models_dir / "tiny")
    async with (
        open_stack(settings, log_folder=tmp_path, with_generator=False) as stack,
        connect(stack.url, name="stranger") as stranger,
    ):
        await save(stack.bus, GOLD)
        await in_step(stack.bus, records=1)
        for headers in (None, {"Local2-Signature": "0" * 64}):
            for subject in ASKED:
                refused = await stranger.request(subject, REQUEST, headers=headers)
                assert (refused.headers or {}).get("Nats-Service-Error-Code") == "forbidden"
                assert json.loads(refused.data)["payload"]["code"] == "forbidden"
        assert await refusals(stack, "vector_worker") == 2 * len(ASKED)

        await stranger.publish(subjects.VECTOR_RESET, REQUEST)
        await stranger.publish(subjects.VECTOR_READY, b'{"payload": {"worker": "mine"}}')

        async def counted() -> bool:
            return (
                await refusals(stack, "housekeeper") == 1
                and await refusals(stack, "vector_worker") == 2 * len(ASKED) + 1
            )

        await eventually(counted)
        assert (await status(stack.bus)).in_index == 1
        assert (await search(stack.bus, GOLD))["degraded"] is False


async def test_the_secret_appears_on_no_bus_in_no_log_and_on_no_command_line(
    tmp_path: Path,
) -> None:
    settings = settings_in(tmp_path)
    messages: list[bytes] = []
    async with open_stack(settings, log_folder=tmp_path, with_generator=False) as stack:
        secret = stack.bus.secret.encode()
        await in_step(
            stack.bus
        )  # a subscriber to everything would hide "no responders" from requesters
        async with connect(stack.url, name="subscriber") as subscriber:

            async def receive(message: BusMessage) -> None:
                messages.append(repr(message).encode())

            await subscriber.subscribe(">", receive)
            await subscriber.flush()
            await save(stack.bus, GOLD)
            await in_step(stack.bus, records=1)
        pid = stack.vector_worker.pid
        written = [file.read_bytes() for file in tmp_path.rglob("*") if file.is_file()]
        written += [file.read_bytes() for file in Path("/proc", str(pid)).glob("cmdline")]

    assert len(secret) == 64
    assert any(b"vector.upsert" in message for message in messages)
    assert [text for text in (*messages, *written) if secret in text] == []
