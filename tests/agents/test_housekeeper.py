"""The housekeeper reports whether ledger and index agree, and reindexes on request."""

import asyncio
import json
from collections.abc import AsyncIterator, Iterator, Sequence
from datetime import timedelta
from pathlib import Path
from typing import Any
from unittest.mock import AsyncMock

import pytest

from calling import UNNAMED
from factories import StartWorker
from indexed import indexed
from local2.agents import health as status_of
from local2.agents import services, vector_worker
from local2.agents.findings import check_languages
from local2.agents.services import ServiceHost
from local2.bus.connection import BusMessage, Connection
from local2.bus.identity import signed
from local2.client.access import ask_service
from local2.errors import (
    BusError,
    IndexDamagedError,
    StorageError,
    UnwritableError,
    VectorError,
)
from local2.ledger.records import Counts
from local2.memory import backlog
from local2.memory.tenant import Memories, Memory
from local2.protocol.envelope import utc_now
from local2.protocol.maintenance import CheckResult, MemoryStatus, TaskCounts
from local2.protocol.payloads import Empty
from local2.protocol.services import FINDINGS
from local2.protocol.vectors import VectorItem, VectorStatus
from local2.vectors.config import WorkerConfig
from local2.vectors.embedder import FloatMatrix
from local2.vectors.joined import JoinedEmbedder
from local2.vectors.minilm import MiniLM
from recalling import chat_message
from serving import service_host
from stacks import all_indexed, status
from waiting import eventually

NO_WORKER = "The vector worker does not answer: Nobody serves vector."
AWAY = "It is away for a test."
OUT_OF_ORDER = VectorStatus(
    worker="w1", count=0, embedder="minilm", clean=True, dimensions=384, problem=AWAY
)


@pytest.fixture(autouse=True)
async def housekeeper(bus: Connection, memory: Memory) -> AsyncIterator[ServiceHost]:
    async with service_host("housekeeper", bus, Memories(memory)) as running:
        yield running


async def test_without_a_worker_the_status_names_the_waiting_records_and_the_problem(
    bus: Connection, memory: Memory
) -> None:
    before = utc_now()
    await memory.of(UNNAMED).write_episodic("The symbol of gold is Au.")

    now = await status(bus)

    assert now.waiting_since is not None
    assert now.waiting_since <= before
    assert now == MemoryStatus(
        records=1,
        indexed=0,
        waiting=1,
        vectors_available=False,
        problem=f"{NO_WORKER}status.",
        consolidation_hours=24.0,
        waiting_since=now.waiting_since,
    )


async def test_the_status_and_searches_say_why_the_worker_could_not_open_its_index(
    bus: Connection,
    memory: Memory,
    nats_url: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(vector_worker, "_stop_event", asyncio.Event)
    (tmp_path / "a_file").touch()
    config = WorkerConfig(
        bus_url=nats_url,
        secret=bus.secret,
        chroma_path=tmp_path / "a_file",
        collection="local2.memory",
        models_dir=tmp_path / "models",
        embedder="minilm",
        embedding_model="nomic-embed-text",
        ollama_url="http://127.0.0.1:1",
    )

    with pytest.raises(UnwritableError) as refused:
        await vector_worker.work(config)

    await eventually(lambda: status(bus), lambda now: now.problem == str(refused.value))
    found = await memory.of(UNNAMED).search_episodic("gold")
    assert found.reason == str(refused.value)


async def test_a_worker_that_hangs_does_not_block_the_status(
    bus: Connection, memory: Memory, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def hang(_: BusMessage) -> None:
        """Never answer, like a stopped process whose subscription remains."""

    monkeypatch.setattr(status_of, "WORKER_PATIENCE", 0.1)
    await bus.subscribe("vector.status", hang)
    await memory.of(UNNAMED).write_episodic("The symbol of gold is Au.")

    now = await status(bus)

    assert (now.records, now.in_index) == (1, None)
    assert now.problem == "The vector worker did not answer within 0.1 s: it is busy, or hangs."


@pytest.mark.parametrize(
    ("part", "outcome"),
    [
        pytest.param("count_turns", {"side_effect": BusError(AWAY)}, id="JetStream"),
        pytest.param("counts", {"side_effect": StorageError(AWAY)}, id="the ledger"),
        pytest.param("upsert", {"side_effect": VectorError(AWAY)}, id="the embedder"),
        pytest.param("status", {"side_effect": IndexDamagedError(AWAY)}, id="the index"),
        pytest.param("status", {"return_value": OUT_OF_ORDER}, id="the worker"),
    ],
)
async def test_the_status_says_what_fails(
    bus: Connection,
    searchable: Memory,
    monkeypatch: pytest.MonkeyPatch,
    part: str,
    outcome: dict[str, Any],
) -> None:
    await eventually(lambda: searchable.indexer.worker)
    owners = {"count_turns": status_of, "counts": searchable.ledger.backlog}

    monkeypatch.setattr(owners.get(part, searchable.vectors), part, AsyncMock(**outcome))
    if part == "upsert":
        await searchable.of(UNNAMED).write_episodic("The symbol of gold is Au.")

    await eventually(lambda: status(bus), lambda now: AWAY in str(now.problem))


async def test_a_turn_that_is_stored_while_the_status_is_read_counts_as_waiting(
    bus: Connection, memory: Memory, monkeypatch: pytest.MonkeyPatch
) -> None:
    stored = asyncio.Event()
    count_records = memory.ledger.counts

    async def count_turns(_: Connection, __: str) -> int:
        return int(not stored.is_set())

    async def count_and_store() -> Counts:
        counts = await count_records()
        await memory.of(UNNAMED).write_episodic("The symbol of gold is Au.")
        stored.set()
        return counts

    monkeypatch.setattr(status_of, "count_turns", count_turns)
    monkeypatch.setattr(memory.ledger, "counts", count_and_store)

    now = await status(bus)

    assert now.unread or now.waiting


async def test_without_a_worker_a_reindex_names_the_problem_and_loses_nothing(
    bus: Connection, memory: Memory, start_worker: StartWorker
) -> None:
    await memory.of(UNNAMED).write_episodic("The symbol of gold is Au.")

    refused = await status(bus, reindex=True)

    assert (refused.waiting, refused.problem) == (1, f"{NO_WORKER}reset.")
    await start_worker()
    await all_indexed(bus, records=1)


async def test_a_new_worker_is_noticed_at_once(
    bus: Connection, memory: Memory, start_worker: StartWorker
) -> None:
    for n in range(20):
        await memory.of(UNNAMED).write_episodic(f"Note {n}.")
    await start_worker()
    await indexed(memory)

    now = await status(bus)
    assert (now.records, now.indexed, now.in_index, now.problem) == (20, 20, 20, None)
    assert now.waiting_since is None


async def test_a_reindex_removes_vectors_without_a_record(
    bus: Connection, searchable: Memory
) -> None:
    ids = {await searchable.of(UNNAMED).write_episodic(f"Note {n}.") for n in range(20)}
    await indexed(searchable)
    unknown = VectorItem(id="stranger", text="A record that the ledger never had.")
    await searchable.vectors.upsert([unknown])

    await status(bus, reindex=True)
    await all_indexed(bus, records=20)

    assert set(await searchable.vectors.ids(0, 100)) == ids


async def test_a_record_that_the_embedder_fails_on_is_set_aside_and_the_others_indexed(
    bus: Connection,
    memory: Memory,
    start_worker: StartWorker,
    embedder: MiniLM,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    embed = embedder.embed_documents

    def fail_on_note_7(texts: Sequence[str]) -> Iterator[tuple[list[int], FloatMatrix]]:
        if any("Note 7." in text for text in texts):
            raise RuntimeError(f"It failed at {texts}.")
        return embed(texts)

    monkeypatch.setattr(backlog, "FIRST_RETRY", timedelta(0))
    monkeypatch.setattr(embedder, "embed_documents", fail_on_note_7)
    for n in range(20):
        await memory.of(UNNAMED).write_episodic(f"Note {n}.")
    await start_worker()

    await eventually(lambda: status(bus), lambda now: now.set_aside)
    await indexed(memory)
    now = await status(bus)
    assert (now.indexed, now.in_index, now.waiting, now.problem) == (19, 19, 0, None)
    failed = "The vector_worker failed: RuntimeError; its log says where."
    assert now.set_aside == [TaskCounts(kind="index", aside=1, errors=(failed,))]
    found = await memory.of(UNNAMED).search_episodic("Note 7.")
    assert found.hits[0].content == "Note 7.", "full-text search still finds it"

    monkeypatch.setattr(embedder, "embed_documents", embed)
    await status(bus, reindex=True)
    await all_indexed(bus, records=20)
    assert (await status(bus)).set_aside == []


async def test_a_malformed_announcement_of_a_worker_is_logged_in_one_line(
    bus: Connection, memory: Memory, start_worker: StartWorker, logs: Path
) -> None:
    def lines() -> list[str]:
        return [line for line in logs.read_text().splitlines() if '"vector.ready"' in line]

    before = len(lines())
    for garbage in (b"", b"{", b"null", b'{"payload": {"worker": 7}}', b"\xff" * 1_000):
        headers = signed(bus.secret, "vector.ready", garbage)
        await bus.publish("vector.ready", garbage, headers=headers)

    await eventually(lambda: len(lines()) == before + 5)
    logged = [json.loads(line) for line in lines()[before:]]
    assert {line["event"] for line in logged} == {"message_failed"}
    assert not [line for line in logged if "exception" in line or len(str(line)) > 500]
    await start_worker()
    await memory.of(UNNAMED).write_episodic("The symbol of gold is Au.")
    await indexed(memory)


async def test_findings_name_what_is_broken_and_what_to_do(bus: Connection, memory: Memory) -> None:
    await memory.of(UNNAMED).write_episodic("The symbol of gold is Au.")

    report = await ask_service(bus, FINDINGS, Empty())
    found = {finding.name: finding for finding in report.findings}

    assert found["index"].verdict == "broken"
    assert found["index"].detail == "1 records, 0 indexed, 1 waiting"
    assert found["index"].remedy == f"{NO_WORKER}status."
    assert (found["backups"].verdict, found["tasks"].verdict) == ("note", "ok")
    assert " are free" in found["disk"].detail


@pytest.mark.parametrize(
    ("said", "found"),
    [
        ("Ich wohne jetzt in Haus {} und habe einen Hund.", True),
        ("我住在{}号楼。", True),
        ("I live in house {} now, and have a dog.", False),
    ],
)
async def test_a_memory_that_is_mostly_not_english_is_told_of_the_embedder_for_it(
    bus: Connection, memory: Memory, start_worker: StartWorker, said: str, found: bool
) -> None:
    told = [chat_message(said.format(n)) for n in range(20)]
    await memory.of(UNNAMED).intake.store_conversation(told[:19], "s1")
    await start_worker()

    async def of_languages() -> list[str | None]:
        findings = (await ask_service(bus, FINDINGS, Empty())).findings
        return [finding.remedy for finding in findings if finding.name == "languages"]

    assert await of_languages() == []  # too few to tell

    await memory.of(UNNAMED).intake.store_conversation(told[19:], "s1")

    remedies = await of_languages()
    assert len(remedies) == found
    assert all("minilm+e5" in str(remedy) for remedy in remedies)


async def test_languages_are_looked_at_again_only_after_a_change(
    bus: Connection, memory: Memory, start_worker: StartWorker, monkeypatch: pytest.MonkeyPatch
) -> None:
    looked_at: list[int] = []

    def look(said: Sequence[str], _: str | None) -> list[CheckResult]:
        looked_at.append(len(said))
        return [CheckResult("languages", "note", f"{len(said)} messages")]

    async def found() -> list[str]:
        findings = (await ask_service(bus, FINDINGS, Empty())).findings
        return [finding.detail for finding in findings if finding.name == "languages"]

    await start_worker()
    monkeypatch.setattr(services, "check_languages", look)
    assert [await found(), await found(), await found()] == [["0 messages"]] * 3
    assert looked_at == [0]

    await memory.of(UNNAMED).intake.store_conversation([chat_message("Hello.")], "s1")

    assert await found() == ["1 messages"]


@pytest.mark.parametrize(
    "embedder", [None, JoinedEmbedder.name, "openai:bge-m3", "nomic-embed-text"]
)
def test_nobody_is_told_of_another_embedder_unless_minilm_embeds(embedder: str | None) -> None:
    assert check_languages(["Ich wohne in Leipzig."] * 50, embedder) == []
