"""Vectors on disk, in Chroma: one folder, one client, one collection a tenant.

Chroma may refuse a folder, or crash on it, after its process was killed while writing. Vectors are
derived from the ledger, so such a folder is emptied and filled again: see `folder.py`. Damage that
shows later, because files were deleted for example, is an IndexDamagedError; `reset` mends it.
"""

import uuid
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Self

from chromadb.errors import NotFoundError

from local.errors import (
    EmbedderMismatchError,
    IndexDamagedError,
    StorageError,
    UnwritableError,
    VectorError,
)
from local.protocol.vectors import VectorHit
from local.vectors.config import Slot, name_of, own_collections, segments_of, tenants_of
from local.vectors.embedder import FloatMatrix
from local.vectors.folder import IndexFolder, close_client, ready_client, translated

UPSERT_SIZE = 128
"""Vectors in one upsert, during which Chroma holds the GIL: 53 ms for so many."""

SAME_VECTOR = 0.9999
"""Cosine from which two vectors are the same. Ids cannot decide, because records with the same text
have the same vector; the distance to 1 is room for the rounding of float32."""


class VectorIndex:
    """Blocking, for one thread at a time; any call may raise VectorError."""

    def __init__(self, folder: IndexFolder, client: Any, collection: str) -> None:
        self._folder = folder
        self._client = client
        self._collection = collection
        self._collections: dict[tuple[str, Slot], Any] = {}

    @classmethod
    def open(cls, path: Path, collection: str) -> Self:
        """Lock the folder and open it, emptied if Chroma cannot read it.

        Args:
            path: a folder for the index only; it is created if necessary.
            collection: the name of the default tenant's collection, and the prefix of all others.

        Raises:
            FolderLockedError: another process has the folder open.
            UnwritableError: the folder cannot be written to.
            VectorError: Chroma does not work even in an empty folder.
        """
        folder = IndexFolder.acquire(path)
        try:
            opened = cls(folder, ready_client(folder, collection), collection)
            opened._finish_swaps()
        except OSError as error:
            folder.release(clean=False)
            raise UnwritableError(path, error) from error
        except BaseException:
            folder.release(clean=False)
            raise
        return opened

    @property
    def opened_clean(self) -> bool:
        """False if the index must be compared with the ledger: after a kill, or once emptied."""
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
        """Return the tenants that have a collection, sorted."""
        return tenants_of(self._names(), self._collection)

    def recorded_embedder(self, tenant: str, slot: Slot = "serving") -> str | None:
        """Return the name of the embedder that made the vectors, None without a collection."""
        return self._recorded(tenant, "embedder", slot)

    def recorded_dimensions(self, tenant: str, slot: Slot = "serving") -> int:
        """Return the length of the vectors, 0 without a collection."""
        return int(self._recorded(tenant, "dimensions", slot) or 0)

    def generation(self, tenant: str) -> str | None:
        """Return an id that every new collection gets, None without a collection."""
        return self._recorded(tenant, "generation")

    def ensure(
        self, tenant: str, embedder_name: str, dimensions: int, slot: Slot = "serving"
    ) -> None:
        """Create the tenant's collection unless it exists.

        Raises:
            EmbedderMismatchError: it was built with another embedder.
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
        """Replace the tenant's collection, if it has one, by an empty one.

        With `whole`, or if the files are too damaged for that, the whole folder is emptied.

        Raises:
            IndexDamagedError: even that does not work.
        """
        try:
            if not whole:
                self._drop(tenant)
        except IndexDamagedError:
            whole = True
        if whole:
            self._start_over()
        self._create(tenant, embedder_name, dimensions)

    def swap(self, tenant: str) -> None:
        """Put the next collection in the place of the one that serves, which is deleted.

        A kill between the two is made good when the folder is opened.
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
        """Store the vectors, one row for each of the unique ids, after `ensure`."""
        collection = self._find(tenant, slot)
        if collection is None:
            raise VectorError(f"Tenant {tenant} has no collection to store vectors in.")
        with translated("store vectors"):
            for start in range(0, len(ids), UPSERT_SIZE):
                piece = slice(start, start + UPSERT_SIZE)
                collection.upsert(ids=list(ids[piece]), embeddings=vectors[piece])

    def delete(self, tenant: str, ids: Sequence[str]) -> None:
        """Delete the vectors of these ids, in either collection; unknown ids are ignored."""
        for collection in (self._find(tenant), self._find(tenant, "next")):
            if collection is not None and ids:
                with translated("delete vectors"):
                    collection.delete(ids=list(ids))

    def search(self, tenant: str, vectors: FloatMatrix, limit: int) -> list[list[VectorHit]]:
        """Return the nearest records for each row of `vectors`, best first."""
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
        """Return a page of the stored ids, in an order that is stable until the next write."""
        collection = self._find(tenant, slot)
        if collection is None:
            return []
        with translated("list its ids"):
            page: list[str] = collection.get(offset=offset, limit=limit, include=[])["ids"]
        return page

    def held(self, tenant: str, ids: Sequence[str]) -> list[str]:
        """Return those of these ids that are stored."""
        collection = self._find(tenant)
        if collection is None or not ids:
            return []
        with translated("look for ids"):
            found: list[str] = collection.get(ids=list(ids), include=[])["ids"]
        return found

    def lost(self, tenant: str, ids: Sequence[str], vectors: FloatMatrix) -> list[str]:
        """Return the ids whose vector, as the ledger has it, does not find itself.

        A kill loses nothing, but vector files that a power cut has shortened lose vectors silently.
        A sample of a few hundred shows it; the nearest-neighbour graph itself misses about 1 in
        10,000.
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
        self._folder.drop_segments(segments)  # Chroma does not delete those of deleted collections

    def _finish_swaps(self) -> None:
        """Let a next collection serve where the one before it is deleted already."""
        names = self._names()
        for tenant in tenants_of(names, self._collection):
            if self._name(tenant, "next") in names and self._name(tenant) not in names:
                self.swap(tenant)

    def _start_over(self) -> None:
        self._collections.clear()
        if self._client is not None:
            close_client(self._client)
            self._client = None
        try:
            self._folder.restore()
            self._folder.wipe()
            self._client = ready_client(self._folder, self._collection)
        except (OSError, StorageError, VectorError) as error:
            raise IndexDamagedError(f"An empty index cannot be made: {error}") from error

    def _names(self) -> set[str]:
        with translated("list its collections"):
            return {each.name for each in own_collections(self._client, self._collection)}

    def _name(self, tenant: str, slot: Slot = "serving") -> str:
        return name_of(self._collection, tenant, slot)

    def _recorded(self, tenant: str, field: str, slot: Slot = "serving") -> str | None:
        collection = self._find(tenant, slot)
        return None if collection is None else str(collection.metadata[field])

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
                configuration={"hnsw": {"space": "cosine"}},
                metadata={
                    "embedder": embedder_name,
                    "dimensions": dimensions,
                    "generation": str(uuid.uuid4()),
                },
            )
