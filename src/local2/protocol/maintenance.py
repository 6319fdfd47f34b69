"""Payloads for operators: health, checks, status, dead letters, backups, export and import."""

from datetime import datetime
from typing import Literal

import msgspec

from local2.errors import Local2Error
from local2.protocol.memories import OwnerScope
from local2.protocol.payloads import DeadLetter
from local2.protocol.portable import Count

HealthStatus = Literal["ok", "degraded", "unavailable"]


class Readiness(msgspec.Struct, kw_only=True):
    """The answer to `memory.ready`: whether tools are served, and the reasons if not."""

    ready: bool
    reasons: list[str] = []


class Health(msgspec.Struct, kw_only=True):
    """The answer to `memory.health`.

    `degraded`: everything is served, but something is broken or delayed. `unavailable`: not ready.
    """

    status: HealthStatus
    reasons: list[str] = []


Verdict = Literal["ok", "note", "broken"]


class CheckResult(msgspec.Struct, omit_defaults=True):
    """A finding of `local2 doctor`. A `note` is not a fault: the stack works without it."""

    name: str
    verdict: Verdict
    detail: str
    remedy: str | None = None

    @classmethod
    def broken(cls, name: str, error: Local2Error) -> "CheckResult":
        return cls(name, "broken", error.message, error.remedy)


class BackupRequest(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """`memory.backup`: make a backup in `folder` on the stack's machine; None requests the status.

    The other fields are as in memory.yaml. `recipient` is a public key of age, or a file of such
    keys on the stack's machine.
    """

    folder: str | None = None
    recipient: str | None = None
    keep: int | None = None


class BackupReport(msgspec.Struct, frozen=True, kw_only=True):
    """A finished backup.

    `written`: bytes that no earlier backup had. `removed`: number of deleted old backups.
    """

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
    """The answer to `memory.backup`.

    During a backup, `done` of `total` bytes are processed. `last`: the last backup since the
    stack's start. `problem`: why the last attempt failed. `scheduled`: the folder of automatic
    backups. `newest`: when the newest of them was made.
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
    """A dead letter, with its sequence number in the stream."""

    sequence: int
    at: datetime
    letter: DeadLetter


class LetterRequest(msgspec.Struct, frozen=True, kw_only=True):
    """`memory.dead_letters`: read or drop a letter, or read the next one from a number on."""

    action: LetterAction = "next"
    number: int = 1


class LetterFound(msgspec.Struct, frozen=True, kw_only=True):
    """The letter that was read or dropped; None if there is no next one."""

    found: StoredLetter | None = None


class Reindex(msgspec.Struct, kw_only=True, omit_defaults=True):
    """`memory.reindex`: with the current embedder, or with another one that then replaces it."""

    embedder: str | None = None


class NextIndex(msgspec.Struct, kw_only=True, omit_defaults=True):
    """An index of another embedder that is being filled to replace the current one."""

    embedder: str
    waiting: int
    problem: str | None = None


class ConsolidationStatus(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The last consolidation of all facts, and the one in progress.

    `ended_at`: None while it runs, or if it was killed. `looked_at`: the number of facts that the
    one in progress has examined. `problem`: why the last one did not finish.
    """

    run: str | None = None
    began_at: datetime | None = None
    ended_at: datetime | None = None
    changed: int = 0
    failed: int = 0
    under_way: bool = False
    looked_at: int = 0
    problem: str | None = None


class TasksSetAside(msgspec.Struct, kw_only=True):
    """The number of tasks of a kind that failed repeatedly, and the first distinct reasons."""

    kind: str
    aside: int
    errors: list[str] = []


class ModelUse(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A part of the memory's work, and what does it: a model's name, `rules`, or `none` for nobody.

    `problem`: why the model of the settings does not do it at present; rules do it meanwhile.
    """

    work: str
    by: str
    problem: str | None = None


class ModelStatus(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What does the memory's work, and what its models have used of the day's budget.

    A maximum of 0: there is none.
    """

    uses: list[ModelUse] = []
    calls: int = 0
    max_calls: int = 0
    tokens: int = 0
    max_tokens: int = 0

    def __str__(self) -> str:
        uses = [
            f"{use.work} by {use.by}" + (f" ({use.problem})" if use.problem else "")
            for use in self.uses
        ]
        if all(use.by in {"rules", "none"} for use in self.uses):
            return ", ".join(uses)
        calls = f"{self.calls:,} of {self.max_calls:,}" if self.max_calls else f"{self.calls:,}"
        tokens = (
            f"{self.tokens:,} of {self.max_tokens:,}" if self.max_tokens else f"{self.tokens:,}"
        )
        return f"{', '.join(uses)}; today {calls} calls and {tokens} tokens"


class LiveStack(msgspec.Struct, frozen=True, kw_only=True):
    """A stack that shares the ledger; `silent` are the seconds since it last said that it lives."""

    name: str
    began_at: datetime
    silent: float


class MemoryStatus(msgspec.Struct, kw_only=True):
    """The answer to `memory.status`: the state of the ledger, the index and the backlog.

    `vectors_available`: searches use vectors for everything that is indexed. `dead_letters`: the
    number of messages that could not be stored. `waiting_since`: while records wait for indexing,
    when the last record was indexed, or else when the first waiting one was written.
    `turns_problem`: why JetStream stores no turns, and what to do. `turns_waiting`: number of turns
    and ratings that nobody has begun to store. `unread`: number of messages waiting for extraction,
    and of turns and ratings in JetStream. `set_aside`: tasks that are not retried until the next
    start. `consolidation`: the last one; None before the first. `next`: the index of another
    embedder that is being filled. `to_anonymise`: number of retired records that are due for
    anonymisation. `models`: what judges, extracts, reads questions and answers; None if the stack
    opened no models. `stacks`: all that share the ledger and live, if several may.
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
    turns_waiting: int = 0
    unread: int = 0
    set_aside: list[TasksSetAside] = []
    consolidation: ConsolidationStatus | None = None
    next: NextIndex | None = None
    to_anonymise: int = 0
    models: ModelStatus | None = None
    stacks: list[LiveStack] = []


class ExportRequest(msgspec.Struct, kw_only=True, omit_defaults=True):
    """`memory.export`: the page after `cursor`; the envelope names the owner of a scope."""

    scope: OwnerScope | None = None
    vectors: bool = False
    cursor: str | None = None


class ExportPage(msgspec.Struct, kw_only=True, omit_defaults=True):
    """Complete lines, or a piece of a line that is longer than a page.

    `cut`: the rest of the line follows. Without a `cursor`, this is the last page. `records`: the
    total number of records, on the first page only.
    """

    lines: list[msgspec.Raw] = []
    counts: dict[str, int] = {}
    piece: bytes = b""
    cut: bool = False
    cursor: str | None = None
    records: int | None = None


class ImportRequest(msgspec.Struct, kw_only=True, omit_defaults=True):
    """`memory.import`: lines that are all stored, or none of them.

    `number`: the number of the first line. A line that is too long for a message is sent in pieces
    with a common name (`transfer`) and numbers from 0 (`part`); with `cut`, more pieces follow.
    """

    number: Count
    lines: list[msgspec.Raw] = []
    piece: bytes = b""
    transfer: str = ""
    part: Count = 0
    cut: bool = False
    dry_run: bool = False


class Conflict(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Two records that cannot both be active: the same topic, or the same part of a document.

    `kept` stays active; `history` becomes an old version.
    """

    kept: str
    history: str
    topic: str | None = None
    document: str | None = None


class RefusedLine(msgspec.Struct, frozen=True, kw_only=True):
    """A line that breaks a rule of a write, and so was not stored; lines are numbered from 1."""

    line: int
    problem: str


class ImportReport(msgspec.Struct, kw_only=True, omit_defaults=True):
    """The outcome of an import: the numbers of new and known lines by type.

    `replaced`: records that an imported one replaced without a conflict, because a newer backup
    contains that replacement. `erased`: lines that were skipped because they had been erased here
    on request. `unplaced`: lines that refer to something that does not exist here. `refused`:
    lines that break a rule of a write.
    """

    new: dict[str, int] = {}
    known: dict[str, int] = {}
    replaced: int = 0
    erased: int = 0
    unplaced: int = 0
    conflicts: list[Conflict] = []
    refused: list[RefusedLine] = []
