"""Chroma's client: opened on a folder that may be damaged, and what its errors mean."""

import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import chromadb
import numpy as np
from chromadb.api.shared_system_client import SharedSystemClient
from chromadb.config import Settings
from chromadb.errors import ChromaError, InternalError, NotFoundError

from local.errors import IndexDamagedError, VectorError
from local.vectors.folder import IndexFolder

UNMENDED = re.compile(r"\(code: (5|8|13)\)")
"""What SQLite says of a locked file, a read-only and a full disk: an empty folder mends none."""


def ready_client(folder: IndexFolder, collection: str) -> Any:
    """Open Chroma on the folder and query every collection once: that is when damage shows."""
    if folder.died_opening:
        folder.wipe()
    folder.begin_opening()
    try:
        client = _probed_client(folder.path, collection)
    except VectorError:
        folder.wipe()
        client = _probed_client(folder.path, collection)
    folder.end_opening()
    return client


def _probed_client(path: Path, collection: str) -> Any:
    client = None
    try:
        with translated(f"open {path}"):
            client = chromadb.PersistentClient(path, Settings(anonymized_telemetry=False))
            for found in own_collections(client, collection):
                probe = np.ones((1, found.metadata["dimensions"]), np.float32)
                found.query(query_embeddings=probe, n_results=1)
    except BaseException:
        close_client(client)
        raise
    return client


def close_client(client: Any | None) -> None:
    """Close a client that has failed, if it was made: Chroma's cache has it for the next one."""
    if client is not None:
        client.close()
    SharedSystemClient.clear_system_cache()


def own_collections(client: Any, collection: str) -> list[Any]:
    """Leave out what somebody else may keep in the same Chroma folder."""
    return [
        found
        for found in client.list_collections()
        if found.name == collection or found.name.startswith(f"{collection}.")
    ]


@contextmanager
def translated(action: str) -> Iterator[None]:
    """Turn what Chroma raises, ValueError for arguments it dislikes, into VectorError.

    Its files are damaged where it finds a fault inside, or misses the collection that it had.
    """
    try:
        yield
    except (ChromaError, ValueError) as error:
        problem = f"Chroma could not {action}: {error}."
        if UNMENDED.search(problem):
            remedy = "Check the disk's space and the permissions of `chroma_path`."
            raise VectorError(problem, remedy=remedy) from error
        if isinstance(error, (InternalError, NotFoundError)):
            raise IndexDamagedError(problem) from error
        raise VectorError(problem) from error
