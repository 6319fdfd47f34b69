"""What the stack knows of the vector worker and its folder, without importing Chroma or a model.

The stack and the commands import this module, and they must not pay for what only the worker needs.
"""

from pathlib import Path
from typing import Self

import msgspec

from local.endpoint.address import Endpoint, endpoint_of
from local.errors import IndexDamagedError, StorageError
from local.ledger.sqlite.database import read_only
from local.settings import EmbedderChoice, MemorySettings, Settings
from local.tenants.credentials import Credentials
from local.vectors.known_models import KnownModel, known

DIRTY = ".dirty"
"""A file in Chroma's folder: its last owner did not close it, or the ledger is another one."""
EXIT_SOFTWARE = 70
"""The exit code of a worker in which Chroma or the embedder failed with more than an exception
(EX_SOFTWARE of sysexits.h)."""


COUNT = """\
SELECT count(*) FROM collections
JOIN segments ON segments.collection = collections.id
JOIN embeddings ON embeddings.segment_id = segments.id
WHERE collections.name = :name OR substr(collections.name, 1, length(:name) + 1) = :name || '.'
"""


SEGMENTS = """\
SELECT group_concat(id) AS ids FROM segments WHERE collection = :collection
"""


class WorkerConfig(msgspec.Struct, frozen=True, kw_only=True):
    """The configuration of a worker: one line of JSON on its standard input."""

    bus_url: str
    chroma_path: Path
    collection: str
    models_dir: Path
    embedder: EmbedderChoice
    embedding_model: str
    document_prefix: str = "auto"
    query_prefix: str = "auto"
    cosine_floor: float | None = None
    ollama_url: str
    openai: Endpoint | None = None
    embedding_batch: int = 32
    secret: str = ""
    credentials: Credentials | None = None
    traces: bool = False
    log_file: Path | None = None

    @classmethod
    def of(
        cls,
        settings: Settings,
        bus_url: str,
        secret: str,
        log_folder: Path | None,
        credentials: Credentials | None = None,
    ) -> Self:
        """What the settings say; without a folder the worker logs to standard error.

        Raises:
            ConfigError: They name no endpoint where one is wanted, or one that cannot be used.
        """
        memory = settings.memory
        wanted = memory.embedder == "openai" or memory.openai_url is not None
        return cls(
            bus_url=bus_url,
            secret=secret,
            credentials=credentials,
            traces=settings.telemetry.traces,
            chroma_path=memory.chroma_path,
            collection=memory.collection,
            models_dir=memory.data_dir / "models",
            embedder=memory.embedder,
            embedding_model=memory.embedding_model,
            document_prefix=memory.document_prefix,
            query_prefix=memory.query_prefix,
            cosine_floor=memory.cosine_floor,
            ollama_url=memory.ollama_url,
            openai=embeddings_endpoint(memory) if wanted else None,
            embedding_batch=memory.embedding_batch,
            log_file=log_folder / "vector_worker.log" if log_folder else None,
        )

    def form_of(self, model: str) -> KnownModel:
        """What a model wants before its texts: as it is known, but for what the settings say."""
        form = known(model)
        if model.removesuffix(":latest") != self.embedding_model.removesuffix(":latest"):
            return form
        return msgspec.structs.replace(
            form,
            document_prefix=_unless_auto(self.document_prefix, form.document_prefix),
            query_prefix=_unless_auto(self.query_prefix, form.query_prefix),
            floor=form.floor if self.cosine_floor is None else self.cosine_floor,
        )

    def to_line(self) -> bytes:
        return msgspec.json.encode(self, enc_hook=str)

    @classmethod
    def from_line(cls, line: str) -> Self:
        return msgspec.json.decode(line, type=cls, dec_hook=lambda kind, value: kind(value))


def _unless_auto(configured: str, known_: str) -> str:
    return known_ if configured == "auto" else configured


def embeddings_endpoint(memory: MemorySettings) -> Endpoint:
    """The endpoint that the settings name for embeddings.

    Raises:
        ConfigError: They name none, or one that cannot be used.
    """
    return endpoint_of(memory.openai_url, memory.openai_key, "config/memory.yaml")


def count_vectors(folder: Path, collection: str) -> int:
    """The number of our vectors in Chroma's file, or 0 if it cannot be read.

    For a folder that nobody has open; it reads the SQLite file without Chroma.
    """
    try:
        return int(read_only(folder / "chroma.sqlite3", COUNT, {"name": collection})[0])
    except StorageError:
        return 0


def distrust_index(folder: Path | None) -> None:
    """Have the next worker's index compared with the ledger, record by record, if there is one."""
    if folder is not None and folder.is_dir():
        (folder / DIRTY).touch(mode=0o600)


def segments_of(folder: Path, collection: str) -> set[str]:
    """The ids of what Chroma's file says that a collection consists of; its folders are so named.

    Raises:
        IndexDamagedError: The file cannot be read.
    """
    try:
        row = read_only(folder / "chroma.sqlite3", SEGMENTS, {"collection": collection})
    except StorageError as error:
        raise IndexDamagedError(f"Chroma's file cannot be read: {error}") from error
    return set((row[0] or "").split(","))
