"""Files that hooks leave for each other and for the delivery: sessions, finished turns, a log.

Each hook is a separate process. A session is a file with the prompt of the current turn, removed
when the session ends. A finished turn is a file until JetStream has stored it. So it is not lost if
no stack runs or if the delivering process is killed: the next delivery includes it. Problems are
logged, because none of them concerns the client.
"""

import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple, Self

import msgspec

from local2.atomic_file import write_atomically
from local2.config_files import load_settings
from local2.errors import Local2Error, RequestError
from local2.hook_files import ASIDE, LOG_FILE, TURNS, append_line
from local2.protocol.envelope import Envelope, content_id, decode, encode
from local2.protocol.payloads import Generation
from local2.settings import Settings

if TYPE_CHECKING:  # needed only with accounts, and slow to import
    from local2.tenants.credentials import Credentials

SESSION_SECONDS = 7 * 24 * 3600.0
"""Seconds without use after which a session counts as ended."""
MAX_LOG_BYTES = 1_000_000
"""Maximum bytes of the log; a larger one is rotated."""


class Situation(NamedTuple):
    """The memory that a hook uses, and the user it acts for."""

    home: Path
    settings: Settings
    user: str | None

    @classmethod
    def of(cls, home: Path, user: str | None) -> Self:
        """Read the settings of a home.

        Raises:
            ConfigError: Its settings cannot be read.
        """
        return cls(home, load_settings(home=home), user)

    @property
    def folder(self) -> Path:
        """The folder that hooks share."""
        return self.settings.memory.data_dir / "hooks"

    @property
    def turns(self) -> Path:
        return self.settings.memory.data_dir / TURNS

    def credentials(self) -> "Credentials | None":
        """Read the credentials to connect with; None without accounts.

        Raises:
            ConfigError: A credentials file is missing, or holds no credentials.
        """
        bus = self.settings.bus
        if bus.credentials is None and bus.tenant is None:
            return None
        from local2.tenants.credentials import credentials_of  # noqa: PLC0415 - see above

        return credentials_of(bus, self.user)


class Session(msgspec.Struct, kw_only=True, omit_defaults=True):
    """A session of a client. `at` is the time of the current prompt.

    `reminded`: the model has been given the top memories. `compacted`: a summary has replaced
    earlier messages. `shown`: the ids of the memories in the contexts since the last prompt.
    """

    query_id: str | None = None
    query: str | None = None
    at: datetime | None = None
    answers: list[str] = []
    reminded: bool = False
    compacted: bool = False
    shown: list[str] = []


class HookSessions:
    """The sessions of one client."""

    def __init__(self, folder: Path, client: str) -> None:
        self._folder = folder
        self._client = client

    def load(self, id_: str) -> Session:
        """Read a session; an unknown or unreadable one begins anew."""
        with suppress(OSError, msgspec.MsgspecError):
            return msgspec.json.decode(self._file(id_).read_bytes(), type=Session)
        return Session()

    def save(self, id_: str, session: Session) -> None:
        save_file(self._file(id_), msgspec.json.encode(session))

    @contextmanager
    def changing(self, id_: str) -> Iterator[Session]:
        """Load a session, and save it at the end of the context."""
        session = self.load(id_)
        yield session
        self.save(id_, session)

    def end(self, id_: str) -> None:
        """Remove the session, and all that were not used for `SESSION_SECONDS`."""
        self._file(id_).unlink(missing_ok=True)
        for file in self._folder.glob("*.json"):
            with suppress(FileNotFoundError):
                if time.time() - file.stat().st_mtime > SESSION_SECONDS:
                    file.unlink()

    def _file(self, id_: str) -> Path:
        return self._folder / f"{content_id(self._client, id_)}.json"


def save_file(file: Path, data: bytes) -> None:
    """Write a file completely or not at all, in a folder that is created for its owner only."""
    file.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    write_atomically(file, data)


class Outbox:
    """The folder of finished turns. A `.taken` file is being delivered, or its delivery failed.

    An `ASIDE` file holds no turn, or one that the memory refused.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def put(self, turn: Envelope[Generation]) -> None:
        """Store a turn; a later answer to its prompt replaces it."""
        name = content_id(turn.source, turn.session_id, turn.query_id)
        save_file(self._folder / f"{name}.json", encode(turn))

    @property
    def is_empty(self) -> bool:
        return not any(file.suffix in {".json", ".taken"} for file in self._folder.glob("*"))

    def take(self) -> Iterator[tuple[Path, Envelope[Generation]]]:
        """Yield every turn with its file, which the delivery removes.

        Turns that are put meanwhile get separate files. Files that hold no turn are put aside.
        """
        for file in self._folder.glob("*.json"):
            file.replace(file.with_suffix(".taken"))
        taken = self._folder.glob("*.taken")
        for file in sorted(taken, key=lambda file: file.stat().st_mtime_ns):
            try:
                yield file, decode(file.read_bytes(), Generation)
            except RequestError:
                self.put_aside(file)

    def put_aside(self, file: Path) -> None:
        """Keep a turn that no later attempt would deliver."""
        file.replace(file.with_suffix(ASIDE))


def described(error: BaseException) -> str:
    """What happened, without the text of any message."""
    return error.logged if isinstance(error, Local2Error) else type(error).__name__


def log_problem(data_dir: Path, where: str, error: BaseException) -> None:
    """Log a problem without the text of any message; do nothing if the log cannot be written."""
    at = datetime.now(UTC).isoformat(timespec="milliseconds")
    remedy = f" {error.remedy}" if isinstance(error, Local2Error) and error.remedy else ""
    line = f"{at} {where}: {described(error)}{remedy}\n"
    append_line(data_dir / LOG_FILE, line, max_bytes=MAX_LOG_BYTES)
