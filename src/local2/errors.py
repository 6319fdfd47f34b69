"""The errors of local2, and all error codes that go over the wire.

Local2Error
├── RequestError              the caller can correct it
│   ├── BadRequestError       bad_request        not JSON, or not an envelope
│   ├── InvalidArgumentsError invalid_arguments  an argument is missing, unknown or out of bounds
│   ├── UnknownToolError      unknown_tool       nobody serves this tool
│   ├── TooLargeError         too_large          more bytes than the limit
│   ├── DeadlineError         deadline_exceeded  the deadline passed; nothing was done
│   ├── CancelledCallError    cancelled          the caller cancelled it
│   ├── QuotaError            quota_exceeded     the tenant's storage quota is used up
│   └── ForbiddenError        forbidden          not permitted, or the sender is not accepted
├── ConfigError               invalid_configuration   a file in config/ or another setting is wrong
├── UnavailableError          unavailable        it may succeed later
│   ├── BusError                                 the bus, or a service on it
│   │   ├── NoRespondersError
│   │   ├── BusTimeoutError
│   │   ├── LeaseHeldError                       another stack serves the bus
│   │   └── StackNotRunningError
│   ├── StorageError                             the ledger or its folder
│   │   ├── DamagedError                 damaged, missing, or lacks acknowledged commits
│   │   ├── LedgerKeyError               the key of an encrypted ledger is missing or wrong
│   │   ├── UnwritableError
│   │   ├── BackupError                  no backup, a damaged one, or one with another key
│   │   └── FolderLockedError
│   ├── VectorError                              the vector index or its embedder
│   │   ├── EmbedderMismatchError embedder_mismatch
│   │   ├── IndexDamagedError     index_damaged  used inside the stack, which rebuilds the index
│   │   └── VectorFaultError      internal       a fault of the worker, perhaps due to its input
│   ├── EndpointError, FetchError, RerankError   defined in the modules that raise and catch them
│   └── ModelError                               a chat model
│       ├── ModelPausedError                     not asked: it failed, or no budget is left
│       └── ModelRefusedError
│           └── PromptTooLargeError              longer than the model's context
├── OverloadedError           overloaded         more requests at once than are admitted
├── ToolFailedError           tool_failed        another team's tool reports a failure
├── TaskTakenError            internal           another stack does the task (`memory/backlog.py`)
└── ConversationError         a conversation's messages, or the file they were saved in
"""

import errno
import re
from collections.abc import Mapping
from pathlib import Path
from typing import ClassVar, Final, Literal, get_args

from local2._version import DISTRIBUTION

ErrorCode = Literal[
    "bad_request",
    "invalid_arguments",
    "invalid_configuration",
    "unknown_tool",
    "too_large",
    "deadline_exceeded",
    "cancelled",
    "forbidden",
    "unavailable",
    "overloaded",
    "quota_exceeded",
    "embedder_mismatch",
    "index_damaged",
    "tool_failed",
    "internal",
]
CODES: Final[Mapping[str, ErrorCode]] = {code: code for code in get_args(ErrorCode)}
"""All codes by their text, to validate received codes."""

MAX_ABRIDGED = 200
"""Maximum characters of a received text that an error repeats; too few for a whole memory."""
ABRIDGED_PREFIX = 120
"""How many of the MAX_ABRIDGED characters come from the beginning of a longer text."""
ELLIPSIS = " […] "
_CREDENTIALS = re.compile(r"^(\w+://)?.*@")


def abridged(value: object) -> str:
    """The text of a value for an error message, shortened in the middle if it is long."""
    text = str(value)
    if len(text) <= MAX_ABRIDGED:
        return text
    end = MAX_ABRIDGED - ABRIDGED_PREFIX - len(ELLIPSIS)
    return f"{text[:ABRIDGED_PREFIX]}{ELLIPSIS}{text[len(text) - end :]}"


def quoted(value: object) -> str:
    """A value for an error message, with quotes around a string."""
    return abridged(repr(abridged(value) if isinstance(value, str) else value))


def extra_to_install(name: str) -> str:
    """The remedy if a package of an extra is missing."""
    pip = f"`pip install '{DISTRIBUTION}[{name}]'`"
    return f"Install local2 with its extra: `uv sync --extra {name}`, or {pip}."


def without_credentials(url: str) -> str:
    """A URL without user, password and query, for errors, logs and answers."""
    return _CREDENTIALS.sub(r"\1", url).partition("?")[0]


class Local2Error(Exception):
    """Base of every error.

    `message` states what is wrong and where, `remedy` what to do about it. `logged` is the message
    without received content, for logs.
    """

    code: ClassVar[ErrorCode] = "internal"
    retry_after: float | None = None
    """Seconds after which a retry may succeed, if known."""

    def __init__(
        self, message: str, *, remedy: str | None = None, logged: str | None = None
    ) -> None:
        super().__init__(message)
        self.message = message
        self.remedy = remedy
        self.logged = message if logged is None else logged

    def __str__(self) -> str:
        return f"{self.message} {self.remedy}" if self.remedy else self.message


class RequestError(Local2Error):
    pass


class BadRequestError(RequestError):
    code: ClassVar[ErrorCode] = "bad_request"


class InvalidArgumentsError(RequestError):
    code: ClassVar[ErrorCode] = "invalid_arguments"


class UnknownToolError(RequestError):
    code: ClassVar[ErrorCode] = "unknown_tool"


class TooLargeError(RequestError):
    code: ClassVar[ErrorCode] = "too_large"


class DeadlineError(RequestError):
    code: ClassVar[ErrorCode] = "deadline_exceeded"


class CancelledCallError(RequestError):
    code: ClassVar[ErrorCode] = "cancelled"


class QuotaError(RequestError):
    code: ClassVar[ErrorCode] = "quota_exceeded"


class ForbiddenError(RequestError):
    code: ClassVar[ErrorCode] = "forbidden"


class ConfigError(Local2Error):
    code: ClassVar[ErrorCode] = "invalid_configuration"


class UnavailableError(Local2Error):
    code: ClassVar[ErrorCode] = "unavailable"


class BusError(UnavailableError):
    pass


class NoRespondersError(BusError):
    pass


class BusTimeoutError(BusError):
    pass


class LeaseHeldError(BusError):
    pass


class StackNotRunningError(BusError):
    pass


class OverloadedError(Local2Error):
    code: ClassVar[ErrorCode] = "overloaded"

    def __init__(
        self,
        message: str = "Too many requests at once; nothing was done.",
        *,
        retry_after: float = 1.0,
    ) -> None:
        super().__init__(
            message,
            remedy=f"Try again in {retry_after:g} s, and wait for answers before you send more.",
        )
        self.retry_after = retry_after


class ToolFailedError(Local2Error):
    code: ClassVar[ErrorCode] = "tool_failed"


class TaskTakenError(Local2Error):
    """Another stack has taken over a task, since this one seemed dead: its effect is not stored."""


class StorageError(UnavailableError):
    pass


RESTORE = (
    "Restore it: `local2 restore DIR --replace`, or from a copy of your own, with its -wal file if "
    "it has one. `local2 doctor --deep` reads all of it."
)


class DamagedError(StorageError):
    pass


class LedgerKeyError(StorageError):
    pass


class UnwritableError(StorageError):
    def __init__(
        self, path: Path, error: OSError, *, instead: str = "another folder in config/memory.yaml"
    ) -> None:
        full = error.errno in {errno.ENOSPC, errno.EDQUOT, errno.EFBIG}
        missing = error.errno == errno.ENOENT
        what = "Make room" if full else "Create the folder" if missing else "Change its permissions"
        why = f"{path.resolve()} cannot be written to: {error.strerror}."
        super().__init__(why, remedy=f"{what}, or name {instead}.")


class BackupError(StorageError):
    pass


class FolderLockedError(StorageError):
    def __init__(
        self, message: str, *, holder: int | None = None, remedy: str | None = None
    ) -> None:
        super().__init__(message, remedy=remedy)
        self.holder = holder


class VectorError(UnavailableError):
    pass


class EmbedderMismatchError(VectorError):
    code: ClassVar[ErrorCode] = "embedder_mismatch"


class IndexDamagedError(VectorError):
    code: ClassVar[ErrorCode] = "index_damaged"


class VectorFaultError(VectorError):
    code: ClassVar[ErrorCode] = "internal"


class ConversationError(Local2Error):
    pass


class ModelError(UnavailableError):
    pass


class ModelRefusedError(ModelError):
    pass


class ModelPausedError(ModelError):
    pass


class PromptTooLargeError(ModelRefusedError):
    pass


_BY_CODE: Final[Mapping[str, type[Local2Error]]] = {
    kind.code: kind
    for kind in reversed(tuple(globals().values()))
    if isinstance(kind, type) and issubclass(kind, Local2Error) and "code" in vars(kind)
}
"""The class of each code: the first one above that declares it."""


def error_from_code(code: str, message: str, retry_after: float | None = None) -> Local2Error:
    """The error for a received code and message; the message includes the remedy."""
    kind = _BY_CODE.get(code, ToolFailedError)
    error = kind.__new__(kind)
    Local2Error.__init__(error, message)
    error.retry_after = retry_after
    return error
