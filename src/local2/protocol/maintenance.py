"""Payloads for operators: health, checks, status, dead letters, backups, export and import."""

from datetime import datetime
from typing import Annotated, Literal

import msgspec

from local2.errors import Local2Error
from local2.protocol.envelope import Role
from local2.protocol.memories import Kind, OwnerScope, RetirementReason
from local2.protocol.payloads import DeadLetter, ServiceRequest
from local2.protocol.portable import Count

HealthStatus = Literal["ok", "degraded", "unavailable"]


class Readiness(msgspec.Struct, kw_only=True):
    """The answer to `memory.ready`: whether tools are served, and the reasons if not.

    `stacks`: the names of those that share the ledger and live.
    """

    ready: bool
    reasons: list[str] = []
    stacks: list[str] = []


class Health(msgspec.Struct, kw_only=True):
    """The answer to `memory.health`.

    `degraded`: everything is served, but something is broken or delayed. `unavailable`: not ready.
    """

    status: HealthStatus
    reasons: list[str] = []


Verdict = Literal["ok", "note", "broken"]


class CheckResult(msgspec.Struct, omit_defaults=True):
    """A finding of `memory.findings` and `local2 doctor`.

    A `note` is not a fault: the stack works without it.
    """

    name: str
    verdict: Verdict
    detail: str
    remedy: str | None = None

    @classmethod
    def broken(cls, name: str, error: Local2Error) -> "CheckResult":
        return cls(name, "broken", error.message, error.remedy)


class BackupRequest(ServiceRequest, frozen=True, kw_only=True):
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


class BackupList(ServiceRequest, frozen=True, kw_only=True):
    """`memory.backup.list`: the backups in a folder; None is that of the automatic backups."""

    folder: str | None = None


class ListedBackup(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A complete backup; the numbers are missing if it is encrypted or damaged.

    `size`: bytes of its ledgers. `problem`: why its list of contents cannot be read.
    """

    generation: str
    at: datetime
    encrypted: bool = False
    records: int | None = None
    size: int | None = None
    problem: str | None = None


class BackupsFound(msgspec.Struct, frozen=True, kw_only=True):
    """The backups in a folder, the newest first."""

    folder: str
    backups: list[ListedBackup]


class VerificationRequest(ServiceRequest, frozen=True, kw_only=True):
    """`memory.backup.verify`: read a backup whole, by default the newest of the automatic ones.

    `identity`: the file on the stack's machine with the age secret key that decrypts it.
    """

    folder: str | None = None
    generation: str | None = None
    identity: str | None = None


class VerifiedLedger(msgspec.Struct, frozen=True, kw_only=True):
    """One ledger of a backup, as the manifest describes it, and what was found.

    `damage`: why it cannot be restored. `unread`: why only its pieces were read.
    """

    path: str
    records: int
    size: int
    pieces: int
    damage: str | None = None
    unread: str | None = None


class VerifiedBackup(msgspec.Struct, frozen=True, kw_only=True):
    """A backup that was read whole."""

    generation: str
    at: datetime
    damaged: bool
    turns_waiting: int
    ledgers: list[VerifiedLedger]


class BackupStatus(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The answer to `memory.backup`.

    While a backup is made, or with `verifying` read, `done` of `total` bytes are processed. `last`:
    the last backup since the stack's start. `verified`: the last one that was read since then.
    `problem`: why the last attempt failed. `scheduled`: the folder of automatic backups. `newest`:
    when the newest of them was made.
    """

    under_way: bool = False
    verifying: bool = False
    done: int = 0
    total: int = 0
    last: BackupReport | None = None
    verified: VerifiedBackup | None = None
    problem: str | None = None
    scheduled: str | None = None
    newest: datetime | None = None


LetterAction = Literal["next", "show", "retry", "drop"]


class StoredLetter(msgspec.Struct, frozen=True, kw_only=True):
    """A dead letter, with its sequence number in the stream."""

    sequence: int
    at: datetime
    letter: DeadLetter


class LetterRequest(ServiceRequest, frozen=True, kw_only=True):
    """`memory.dead_letters`: read a letter, publish it again, drop it, or read the next one.

    "next" reads the first letter from the number on. "retry" drops it once its message is stored.
    """

    action: LetterAction = "next"
    number: Annotated[int, msgspec.Meta(ge=1, lt=2**53)] = 1


class LetterFound(msgspec.Struct, frozen=True, kw_only=True):
    """The letter that was read, published again or dropped; None if there is no next one."""

    found: StoredLetter | None = None


class Reindex(ServiceRequest, frozen=True, kw_only=True):
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


class TaskCounts(msgspec.Struct, frozen=True, kw_only=True):
    """The tasks of a kind: how many wait, also for another attempt, and how many were set aside.

    `errors`: the first distinct reasons why tasks were set aside.
    """

    kind: str
    aside: int
    waiting: int = 0
    errors: tuple[str, ...] = ()


TaskAction = Literal["list", "retry", "discard"]
RecordIds = Annotated[tuple[str, ...], msgspec.Meta(max_length=1_000)]


class TaskRequest(ServiceRequest, frozen=True, kw_only=True):
    """`memory.tasks`: list the work on records, and try again or discard what was set aside.

    `kind`, `ids`: only tasks of this kind, and of these records.
    """

    action: TaskAction = "list"
    kind: str | None = None
    ids: RecordIds | None = None


class TaskFailure(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A task that failed, and why; `id` is its record's.

    `due`: when it is tried again; without it, the task was set aside.
    """

    kind: str
    id: str
    record_kind: Kind
    attempts: int
    error: str
    due: datetime | None = None


class TaskReport(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The answer to `memory.tasks`.

    `failed`: up to 100 of each kind, first those that were set aside. `changed`: how many were
    tried again or discarded.
    """

    counts: list[TaskCounts]
    failed: list[TaskFailure] = []
    changed: int = 0


class DueRecord(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A retired record whose content is to be deleted; `content` is the beginning of it."""

    id: str
    kind: Kind
    scope: OwnerScope
    content: str
    topic: str | None = None
    retired_at: datetime | None = None
    retired_why: RetirementReason | None = None


class RetentionReport(msgspec.Struct, frozen=True, kw_only=True):
    """The answer to `memory.retention`: what is anonymised next, or would be if that were on.

    `anonymise` and `after_days` are the settings. `records` are up to 100 of those that are `due`,
    the ones that were retired first.
    """

    anonymise: Literal["dry_run", "on", "off"]
    after_days: int
    due: int
    records: list[DueRecord]


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

    `ledger_problem`: why the ledger cannot be read; what it would tell is then missing, and 0.
    `vectors_available`: searches use vectors for everything that is indexed. `dead_letters`: the
    number of messages that could not be stored. `waiting_since`: while records wait for indexing,
    when the last record was indexed, or else when the first waiting one was written.
    `turns_problem`: why JetStream stores no turns, and what to do. `turns_waiting`: number of turns
    and ratings that nobody has begun to store, or that take long. `unread`: number of messages
    waiting for extraction, and of turns and ratings in JetStream. `set_aside`: tasks that are not
    retried until the next start. `consolidation`: the last one; None before the first.
    `consolidation_hours`: how often one begins by itself; 0: never. `next`: the index of another
    embedder that is being filled.
    `to_anonymise`: number of retired records that are due for anonymisation. `models`: what judges,
    extracts, reads questions and answers; None if the stack opened no models. `stacks`: all that
    share the ledger and live, if several may.
    """

    records: int
    indexed: int
    waiting: int
    vectors_available: bool
    in_index: int | None = None
    embedder: str | None = None
    problem: str | None = None
    ledger_problem: str | None = None
    dead_letters: int = 0
    waiting_since: datetime | None = None
    turns_problem: str | None = None
    turns_waiting: int = 0
    unread: int = 0
    set_aside: list[TaskCounts] = []
    consolidation: ConsolidationStatus | None = None
    consolidation_hours: float | None = None
    next: NextIndex | None = None
    to_anonymise: int = 0
    models: ModelStatus | None = None
    stacks: list[LiveStack] = []


class Findings(msgspec.Struct, frozen=True, kw_only=True):
    """The answer to `memory.findings`: the status, and what of it works and what does not."""

    status: MemoryStatus
    findings: list[CheckResult]


class TenantAgent(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """An agent of a tenant; `answers`: it answers queries."""

    name: str
    role: Role
    answers: bool = False


class TenantReport(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The answer to `memory.tenant`: who has access, and how much is stored of what is allowed.

    `agents` and `token_keys` are None without accounts. `token_keys`: the ids of the keys whose
    tokens are accepted; the last one signs new tokens. `shares`: tools that other tenants may use,
    with their names. A maximum of 0: there is none.
    """

    tenant: str
    records: int
    bytes: int
    max_records: int
    max_bytes: int
    agents: list[TenantAgent] | None = None
    token_keys: list[str] | None = None
    shares: dict[str, list[str]] = {}


class ExportRequest(ServiceRequest, frozen=True, kw_only=True):
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


class ImportRequest(ServiceRequest, frozen=True, kw_only=True):
    """`memory.import`: lines that are all stored, or none of them.

    `number`: the number of the first line. A line that is too long for a message is sent in pieces
    with a common name (`transfer`) and numbers from 0 (`part`); with `cut`, more pieces follow.
    """

    number: Count
    lines: list[msgspec.Raw] = msgspec.field(default_factory=list)
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


def size_in_units(size: int) -> str:
    """A size in bytes as people say it, such as "79.4 GB"."""
    shown, unit = size / 1_000, "kB"
    for larger in ("MB", "GB", "TB"):
        if shown >= 1_000:  # noqa: PLR2004 - a unit is a thousand of the one before
            shown, unit = shown / 1_000, larger
    return f"{shown:,.1f} {unit}"
