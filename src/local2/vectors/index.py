"""Stores vectors on disk, in Chroma: one folder, one client, and one collection per tenant.

After its process was killed during a write, Chroma may refuse the folder, or crash on it. Since
vectors are derived from the ledger, such a folder is emptied and filled again (see `folder.py`).
Damage that shows later, for example because files were deleted, raises IndexDamagedError; `reset`
repairs it.
"""

from collections.abc import Sequence
from pathlib import Path
from typing import Any, Self

from chromadb.errors import NotFoundError

from local2.errors import (
    EmbedderMismatchError,
    IndexDamagedError,
    StorageError,
    UnwritableError,
    VectorError,
)
from local2.protocol.vectors import VectorHit
from local2.vectors.config import Slot, collection_name, own_collections, segments_of, tenants_of
from local2.vectors.embedder import FloatMatrix
from local2.vectors.folder import IndexFolder, close_client, ready_client, translated

UPSERT_SIZE = 32
"""Number of vectors per upsert. Chroma holds the GIL for some 15 ms of it, in which no question can
even be received; with 128 vectors, for 53 ms."""

SAME_VECTOR = 0.9999
"""Cosine from which two vectors count as the same; the margin allows for rounding of float32. Ids
cannot be compared instead, because records with the same text have the same vector."""


CONFIGURATION: dict[str, Any] = {"hnsw": {"space": "cosine"}}
"""Of new collections."""


class VectorIndex:
    """The vector index. Calls block, and may raise VectorError; one thread may use it at a time."""

    def __init__(self, folder: IndexFolder, client: Any, collection: str) -> None:
        self._folder = folder
        self._client = client
        self._collection = collection
        self._collections: dict[tuple[str, Slot], Any] = {}

    @classmethod
    def open(cls, path: Path, collection: str) -> Self:
        """Lock the folder and open it; empty it first if Chroma cannot read it.

        Args:
            path: A folder for the index only; it is created if necessary.
            collection: Name of the default tenant's collection, and prefix of all others.

        Raises:
            FolderLockedError: Another process has the folder open.
            UnwritableError: The folder cannot be written to.
            VectorError: Chroma does not even work in an empty folder.
        """
        folder = IndexFolder.acquire(path)
        try:
            opened = cls(folder, ready_client(folder, collection), collection)
            # Complete swaps in which only the serving collection was deleted before a kill.
            names = opened._names()
            for tenant in tenants_of(names, collection):
                if opened._name(tenant, "next") in names and opened._name(tenant) not in names:
                    opened.swap(tenant)
        except OSError as error:
            folder.release(clean=False)
            raise UnwritableError(path, error) from error
        except BaseException:
            folder.release(clean=False)
            raise
        return opened

    @property
    def opened_clean(self) -> bool:
        """False if the index must be compared with the ledger: after a kill, or when emptied."""
        return self._folder.was_clean

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        self._collections.clear()
        if self._client is not None:
            self._client.close()
        self._folder.release(clean=self._client is not None)

    def tenants(self) -> list[str]:
        """The tenants that have a collection, sorted."""
        return tenants_of(self._names(), self._collection)

    def recorded_embedder(self, tenant: str, slot: Slot = "serving") -> str | None:
        """The name of the vectors' embedder, None without a collection."""
        collection = self._find(tenant, slot)
        return None if collection is None else str(collection.metadata["embedder"])

    def next_dimensions(self, tenant: str) -> int:
        """The length of the vectors of the next collection, 0 without one."""
        collection = self._find(tenant, "next")
        return 0 if collection is None else int(collection.metadata["dimensions"])

    def ensure(
        self, tenant: str, embedder_name: str, dimensions: int, slot: Slot = "serving"
    ) -> None:
        """Create the tenant's collection unless it exists.

        Raises:
            EmbedderMismatchError: It was built with another embedder.
        """
        collection = self._find(tenant, slot)
        if collection is None:
            self._create(tenant, embedder_name, dimensions, slot)
            return
        recorded = collection.metadata["embedder"], collection.metadata["dimensions"]
        if recorded != (embedder_name, dimensions):
            raise EmbedderMismatchError(
                f"The vectors of tenant {tenant} come from {recorded[0]} ({recorded[1]} dimensions)"
                f", not from {embedder_name} ({dimensions} dimensions).",
                remedy="Run `local2 reindex`, or configure the former embedder again.",
            )

    def reset(
        self, tenant: str, embedder_name: str, dimensions: int, *, whole: bool = False
    ) -> None:
        """Replace the tenant's collection, if there is one, by an empty one.

        With `whole`, or if the files are too damaged for that, the whole folder is emptied.

        Raises:
            IndexDamagedError: Emptying the folder failed, too.
        """
        try:
            if not whole:
                self._drop(tenant)
        except IndexDamagedError:
            whole = True
        if whole:
            self._collections.clear()
            if self._client is not None:
                close_client(self._client)
                self._client = None
            try:
                self._folder.restore()
                self._folder.wipe()
                self._client = ready_client(self._folder, self._collection)
            except (OSError, StorageError, VectorError) as error:
                raise IndexDamagedError(f"An empty index cannot be created: {error}") from error
        self._create(tenant, embedder_name, dimensions)

    def swap(self, tenant: str) -> None:
        """Delete the serving collection, and let the next one serve in its place.

        After a kill between the two steps, opening the folder completes the second one.
        """
        following = self._find(tenant, "next")
        if following is None:
            raise VectorError(f"Tenant {tenant} has no other collection.")
        self._drop(tenant)
        with translated("rename a collection"):
            following.modify(name=self._name(tenant))
        self._collections.pop((tenant, "next"))

    def drop_next(self, tenant: str) -> None:
        """Delete the next collection, if there is one."""
        self._drop(tenant, "next")

    def upsert(
        self, tenant: str, ids: Sequence[str], vectors: FloatMatrix, slot: Slot = "serving"
    ) -> None:
        """Store vectors, one row per unique id; call `ensure` before."""
        collection = self._find(tenant, slot)
        if collection is None:
            raise VectorError(f"Tenant {tenant} has no collection to store vectors in.")
        with translated("store vectors"):
            for start in range(0, len(ids), UPSERT_SIZE):
                piece = slice(start, start + UPSERT_SIZE)
                collection.upsert(ids=list(ids[piece]), embeddings=vectors[piece])

    def delete(self, tenant: str, ids: Sequence[str]) -> None:
        """Delete the vectors of these ids from both collections; unknown ids are ignored."""
        for collection in (self._find(tenant), self._find(tenant, "next")):
            if collection is not None and ids:
                with translated("delete vectors"):
                    collection.delete(ids=list(ids))

    def search(self, tenant: str, vectors: FloatMatrix, limit: int) -> list[list[VectorHit]]:
        """The nearest records for each row of `vectors`, the nearest first."""
        collection = self._find(tenant)
        if collection is None or not len(vectors):
            return [[] for _ in vectors]
        with translated("search"):
            answer = collection.query(
                query_embeddings=vectors, n_results=limit, include=["distances"]
            )
        return [
            [VectorHit(id_, 1.0 - d) for id_, d in zip(ids, distances, strict=True)]
            for ids, distances in zip(answer["ids"], answer["distances"], strict=True)
        ]

    def count(self, tenant: str) -> int:
        collection = self._find(tenant)
        with translated("count its vectors"):
            return 0 if collection is None else int(collection.count())

    def ids(self, tenant: str, offset: int, limit: int, slot: Slot = "serving") -> list[str]:
        """A page of the stored ids, in an order that is stable until the next write."""
        collection = self._find(tenant, slot)
        if collection is None:
            return []
        with translated("list its ids"):
            page: list[str] = collection.get(offset=offset, limit=limit, include=[])["ids"]
        return page

    def held(self, tenant: str, ids: Sequence[str]) -> list[str]:
        """Those of these ids that are stored."""
        collection = self._find(tenant)
        if collection is None or not ids:
            return []
        with translated("look for ids"):
            found: list[str] = collection.get(ids=list(ids), include=[])["ids"]
        return found

    def lost(self, tenant: str, ids: Sequence[str], vectors: FloatMatrix) -> list[str]:
        """The ids whose vector, as stored in the ledger, is not found by a search for it.

        A kill loses nothing, but vector files that a power cut truncated lose vectors silently. A
        sample of a few hundred vectors detects it. The nearest-neighbour graph itself misses about
        1 in 10,000.
        """
        nearest = self.search(tenant, vectors, 1)
        return [
            id_
            for id_, hits in zip(ids, nearest, strict=True)
            if not hits or hits[0].cosine < SAME_VECTOR
        ]

    def _drop(self, tenant: str, slot: Slot = "serving") -> None:
        collection = self._find(tenant, slot)
        if collection is None:
            return
        segments = segments_of(self._folder.path, str(collection.id))
        with translated("delete a collection"):
            self._client.delete_collection(self._name(tenant, slot))
        del self._collections[tenant, slot]
        self._folder.drop_segments(segments)  # Chroma leaves them when it deletes a collection

    def _names(self) -> set[str]:
        with translated("list its collections"):
            return {
                collection.name for collection in own_collections(self._client, self._collection)
            }

    def _name(self, tenant: str, slot: Slot = "serving") -> str:
        return collection_name(self._collection, tenant, slot)

    def _find(self, tenant: str, slot: Slot = "serving") -> Any | None:
        if self._client is None:
            raise IndexDamagedError(f"There is no index in {self._folder.path}.")
        if (tenant, slot) not in self._collections:
            with translated("open a collection"):
                try:
                    self._collections[tenant, slot] = self._client.get_collection(
                        self._name(tenant, slot), embedding_function=None
                    )
                except NotFoundError:
                    return None
        return self._collections[tenant, slot]

    def _create(
        self, tenant: str, embedder_name: str, dimensions: int, slot: Slot = "serving"
    ) -> None:
        with translated("create a collection"):
            self._collections[tenant, slot] = self._client.create_collection(
                self._name(tenant, slot),
                embedding_function=None,
                configuration=CONFIGURATION,
                metadata={"embedder": embedder_name, "dimensions": dimensions},
            )
