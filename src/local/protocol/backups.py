"""Backups on the wire: what is asked for, and how far it is."""

from datetime import datetime

import msgspec


class BackupRequest(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """`folder`: where, on the stack's machine; None asks how far it is. The rest as in memory.yaml.

    `recipient` is a public key of age, or a file of them there.
    """

    folder: str | None = None
    recipient: str | None = None
    keep: int | None = None


class BackupReport(msgspec.Struct, frozen=True, kw_only=True):
    """A backup that was made. `written`: bytes that no earlier one had; `removed`: earlier ones."""

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
    """`done` of `total` bytes while one is under way; `last` was made since the stack started.

    `problem`: why the last one was not made. `scheduled` is the folder of those that are made by
    themselves, and `newest` when the newest in there was made.
    """

    under_way: bool = False
    done: int = 0
    total: int = 0
    last: BackupReport | None = None
    problem: str | None = None
    scheduled: str | None = None
    newest: datetime | None = None
