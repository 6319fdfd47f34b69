"""A vector worker whose Chroma hangs at its first write, and holds the interpreter meanwhile."""

import ctypes
import os
from pathlib import Path
from typing import Any

from local2.agents import vector_worker
from local2.vectors.index import VectorIndex

HUNG = "HUNG_ONCE"
"""Environment variable that names a file, which exists once the hang has happened."""
store = VectorIndex.upsert


def hang_once(*args: Any) -> None:
    """Hang, as far as this process can tell for good."""
    hung = Path(os.environ[HUNG])
    if not hung.exists():
        hung.touch()
        ctypes.PyDLL(None).sleep(600)
    store(*args)


if __name__ == "__main__":
    vector_worker.HANG_TIMEOUT = 1
    VectorIndex.upsert = hang_once  # type: ignore[method-assign,assignment]
    vector_worker.main()
