"""What Chroma's own files say while nobody has the folder open."""

from pathlib import Path

from local.errors import StorageError
from local.ledger.sqlite.database import read_only

COUNT = """\
SELECT count(*) FROM collections
JOIN segments ON segments.collection = collections.id
JOIN embeddings ON embeddings.segment_id = segments.id
WHERE collections.name = :name OR substr(collections.name, 1, length(:name) + 1) = :name || '.'
"""


def count_vectors(folder: Path, collection: str) -> int:
    """How many vectors of ours the folder holds; 0 as well where that cannot be told."""
    try:
        return int(read_only(folder / "chroma.sqlite3", COUNT, {"name": collection})[0])
    except StorageError:
        return 0
