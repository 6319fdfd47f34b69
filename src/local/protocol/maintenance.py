"""What an operator asks the memory: health, checks, status, letters, backups, transfers."""

from datetime import datetime
from typing import Literal

import msgspec

from local.errors import Local2Error
from local.protocol.answers import ConsolidationStatus
from local.protocol.memories import Owning
from local.protocol.payloads import DeadLetter
from local.protocol.portable import Count

HealthStatus = Literal["ok", "degraded", "unavailable"]


class Readiness(msgspec.Struct, kw_only=True):
    """The answer to `memory.ready`: whether tools are served, and if not, why."""

    ready: bool
    reasons: list[str] = []


class Health(msgspec.Struct, kw_only=True):
    """The answer to `memory.health`.

    `degraded`: everything is served, but something is missing or waits that should not.
    `unavailable`: not ready.
    """

    status: HealthStatus
    reasons: list[str] = []


Verdict = Literal["ok", "note", "broken"]


class CheckResult(msgspec.Struct, omit_defaults=True):
    """What `local2 doctor` found. A `note` is no fault, because the stack does without it."""

    name: str
    verdict: Verdict
    detail: str
    remedy: str | None = None

    @classmethod
    def broken(cls, name: str, error: Local2Error) -> "CheckResult":
        return cls(name, "broken", error.message, error.remedy)


class BackupRequest(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """`folder`: where, on the stack's machine; None only asks how far a backup is.

    The rest is as in memory.yaml. `recipient` is a public key of age, or a file of them there.
    """

    folder: str | None = None
    recipient: str | None = None
    keep: int | None = None


class BackupReport(msgspec.Struct, frozen=True, kw_only=True):
    """A backup that was made. `written`: bytes that no earlier one had; `removed`: deleted ones."""

    folder: str
    generation: str
    at: datetime
    ledgers: int
    records: int
    size: int
    written: int
    removed: int
    encrypted: bool
    turns_waiting: int = 0


class BackupStatus(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """`done` of `total` bytes during a backup; `last` was made since the stack started.

    `problem`: why the last one was not made. `scheduled` is the folder of the automatic backups,
    and `newest` when the newest of them was made.
    """

    under_way: bool = False
    done: int = 0
    total: int = 0
    last: BackupReport | None = None
    problem: str | None = None
    scheduled: str | None = None
    newest: datetime | None = None


LetterAction = Literal["next", "show", "drop"]


class StoredLetter(msgspec.Struct, frozen=True, kw_only=True):
    """A dead letter, with its number in the stream."""

    sequence: int
    at: datetime
    letter: DeadLetter


class LetterRequest(msgspec.Struct, frozen=True, kw_only=True):
    """`memory.dead_letters`: read one letter or the next one from a number on, or drop one."""

    action: LetterAction = "next"
    number: int = 1


class LetterFound(msgspec.Struct, frozen=True, kw_only=True):
    """The letter that was read or dropped; None where there is no next one."""

    found: StoredLetter | None = None


class Reindex(msgspec.Struct, kw_only=True, omit_defaults=True):
    """`memory.reindex`: with the present embedder, or with another one that then replaces it."""

    embedder: str | None = None


class NextIndex(msgspec.Struct, kw_only=True, omit_defaults=True):
    """An index of another embedder that is filled to replace the present one."""

    embedder: str
    waiting: int
    problem: str | None = None


class TasksSetAside(msgspec.Struct, kw_only=True):
    """Tasks of one kind that failed repeatedly, and the first different reasons."""

    kind: str
    aside: int
    errors: list[str] = []


class MemoryStatus(msgspec.Struct, kw_only=True):
    """The answer to `memory.status`: whether ledger and index agree.

    `vectors_available`: searches use the meaning, over everything that is indexed. `dead_letters`:
    the number of messages that could not be read. `waiting_since`: while records wait to be
    indexed, when the last record was indexed, or else when the first of them was written.
    `turns_problem`: why JetStream stores no turns, and what to do. `unread`: messages that no
    extractor has read yet. `set_aside`: the tasks that are not tried again until the next start.
    `consolidation`: the last one, None before the first. `next`: the index of another embedder.
    `to_anonymise`: retired records that are due.
    """

    records: int
    indexed: int
    waiting: int
    vectors_available: bool
    in_index: int | None = None
    embedder: str | None = None
    problem: str | None = None
    dead_letters: int = 0
    waiting_since: datetime | None = None
    turns_problem: str | None = None
    unread: int = 0
    set_aside: list[TasksSetAside] = []
    consolidation: ConsolidationStatus | None = None
    next: NextIndex | None = None
    to_anonymise: int = 0


class ExportRequest(msgspec.Struct, kw_only=True, omit_defaults=True):
    """`memory.export`: the next page, after `cursor`; the envelope names the owner of a scope."""

    scope: Owning | None = None
    vectors: bool = False
    cursor: str | None = None


class ExportPage(msgspec.Struct, kw_only=True, omit_defaults=True):
    """Complete lines, or a piece of one that is longer than a page.

    `cut`: the rest of the line follows. Without a `cursor` this was the last page. `records`, on
    the first page, is how many there are.
    """

    lines: list[msgspec.Raw] = []
    counts: dict[str, int] = {}
    piece: bytes = b""
    cut: bool = False
    cursor: str | None = None
    records: int | None = None


class ImportRequest(msgspec.Struct, kw_only=True, omit_defaults=True):
    """`memory.import`: lines, the first of them with this number, all stored or none.

    A longer line comes in pieces, which its sender names (`transfer`) and numbers from 0; with
    `cut` more pieces follow.
    """

    number: Count
    lines: list[msgspec.Raw] = []
    piece: bytes = b""
    transfer: str = ""
    part: Count = 0
    cut: bool = False
    dry_run: bool = False


class Conflict(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Two records that cannot both be active: of one topic, or the same part of a document."""

    kept: str
    history: str
    topic: str | None = None
    document: str | None = None


class ImportReport(msgspec.Struct, kw_only=True, omit_defaults=True):
    """The outcome of lines, by type: new, and known before.

    `replaced` are records here that an imported one replaced without a conflict, because a newer
    backup knows of it; `erased` were left out, because they were erased here on request; `unplaced`
    lines refer to something that is not here.
    """

    new: dict[str, int] = {}
    known: dict[str, int] = {}
    replaced: int = 0
    erased: int = 0
    unplaced: int = 0
    conflicts: list[Conflict] = []
