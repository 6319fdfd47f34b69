"""The configuration of the vector worker, and what can be read of its folder without Chroma.

The stack and the commands import this module, so it does not import what only the worker needs.
Each tenant has one collection, or two while one is being replaced.
"""

from pathlib import Path
from typing import Any, Literal, Self

import msgspec

from local2.child_process import ChildConfig
from local2.endpoint.address import Endpoint, endpoint_of
from local2.errors import IndexDamagedError, StorageError
from local2.ledger.engines.sqlite.connections import first_row
from local2.protocol.envelope import DEFAULT_TENANT
from local2.settings import EmbedderChoice, MemorySettings, Settings
from local2.tenants.credentials import Credentials
from local2.vectors.embedder import KnownModel, known

Slot = Literal["serving", "next"]
"""The role of a collection: serving its tenant, or being filled to replace the serving one."""
DIRTY_MARKER = ".dirty"
"""Name of a file in Chroma's folder: the last owner did not close the folder, or the ledger was
replaced."""
EXIT_SOFTWARE = 70
"""Exit code of a worker in which Chroma or the embedder failed with more than an exception
(EX_SOFTWARE in sysexits.h)."""
COUNT_VECTORS = """\
SELECT count(*) FROM collections
JOIN segments ON segments.collection = collections.id
JOIN embeddings ON embeddings.segment_id = segments.id
WHERE collections.name = :name OR substr(collections.name, 1, length(:name) + 1) = :name || '.'
"""
SEGMENTS_OF = """\
SELECT group_concat(id) AS ids FROM segments WHERE collection = :collection
"""


def collection_name(collection: str, tenant: str, slot: Slot) -> str:
    """The name of a tenant's collection; the default tenant's is `collection` itself."""
    name = collection if slot == "serving" else _next_name(collection)
    return name if tenant == DEFAULT_TENANT else f"{name}.{tenant}"


def tenants_of(names: set[str], collection: str) -> list[str]:
    """The tenants whose collections have these names, sorted."""
    tenants = set()
    for own in (collection, _next_name(collection)):
        if own in names:
            tenants.add(DEFAULT_TENANT)
        prefix = f"{own}."
        tenants |= {name.removeprefix(prefix) for name in names if name.startswith(prefix)}
    return sorted(tenants)


def own_collections(client: Any, collection: str) -> list[Any]:
    """The collections of local2; other programs may have theirs in the same folder."""
    names = (collection, _next_name(collection))
    return [
        collection
        for collection in client.list_collections()
        if any(collection.name == name or collection.name.startswith(f"{name}.") for name in names)
    ]


def _next_name(collection: str) -> str:
    """The name of the collection that is filled to replace this one."""
    return f"{collection}-next"


class WorkerConfig(ChildConfig, frozen=True, kw_only=True):
    """The configuration of a vector worker."""

    bus_url: str
    chroma_path: Path | None
    """None if the ledger keeps the vectors."""
    recorded_embedder: str | None = None
    """The embedder that made the vectors in the ledger, if it keeps them."""
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
    reranker: Path | None = None
    secret: str = ""
    credentials: Credentials | None = None
    traces: bool = False

    @classmethod
    def from_settings(
        cls,
        settings: Settings,
        bus_url: str,
        secret: str,
        log_folder: Path | None,
        credentials: Credentials | None = None,
    ) -> Self:
        """The configuration from the settings; without a folder, the worker logs to stderr.

        Raises:
            ConfigError: The settings lack a required endpoint, or name an unusable one.
        """
        memory = settings.memory
        wanted = memory.embedder == "openai" or memory.openai_url is not None
        return cls(
            bus_url=bus_url,
            secret=secret,
            credentials=credentials,
            traces=settings.telemetry.traces,
            chroma_path=memory.chroma_path if memory.ledger is None else None,
            collection=memory.collection,
            models_dir=memory.models_dir,
            embedder=memory.embedder,
            embedding_model=memory.embedding_model,
            document_prefix=memory.document_prefix,
            query_prefix=memory.query_prefix,
            cosine_floor=memory.cosine_floor,
            ollama_url=memory.ollama_url,
            openai=embeddings_endpoint(memory) if wanted else None,
            embedding_batch=memory.embedding_batch,
            reranker=memory.reranker_folder,
            log_file=log_folder / "vector_worker.log" if log_folder else None,
        )

    def properties_of(self, model: str) -> KnownModel:
        """The known properties of a model; settings override those of `embedding_model`."""
        properties = known(model)
        if model.removesuffix(":latest") != self.embedding_model.removesuffix(":latest"):
            return properties
        return msgspec.structs.replace(
            properties,
            document_prefix=_unless_auto(self.document_prefix, properties.document_prefix),
            query_prefix=_unless_auto(self.query_prefix, properties.query_prefix),
            floor=properties.floor if self.cosine_floor is None else self.cosine_floor,
        )


def _unless_auto(configured: str, default: str) -> str:
    return default if configured == "auto" else configured


def embeddings_endpoint(memory: MemorySettings) -> Endpoint:
    """The endpoint that the settings name for embeddings.

    Raises:
        ConfigError: The settings name no endpoint, or an unusable one.
    """
    return endpoint_of(memory.openai_url, memory.openai_key, "config/memory.yaml")


def count_vectors(folder: Path, collection: str) -> int:
    """The number of local2's vectors in Chroma's file, or 0 if it cannot be read.

    No process may have the folder open: the SQLite file is read without Chroma.
    """
    try:
        return int(first_row(folder / "chroma.sqlite3", COUNT_VECTORS, {"name": collection})[0])
    except StorageError:
        return 0


def distrust_index(folder: Path | None) -> None:
    """Mark an existing index, so that its next worker compares it with the ledger."""
    if folder is not None and folder.is_dir():
        (folder / DIRTY_MARKER).touch(mode=0o600)


def segments_of(folder: Path, collection: str) -> set[str]:
    """The ids of a collection's segments, which are the names of their folders.

    Raises:
        IndexDamagedError: Chroma's file cannot be read.
    """
    try:
        row = first_row(folder / "chroma.sqlite3", SEGMENTS_OF, {"collection": collection})
    except StorageError as error:
        raise IndexDamagedError(f"Chroma's file cannot be read: {error}") from error
    return set((row[0] or "").split(","))
