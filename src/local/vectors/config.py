"""What the stack and a vector worker know of each other. Imports nothing heavy: both read it."""

from pathlib import Path
from typing import Self

import msgspec

from local.settings import EmbedderChoice

EXIT_SOFTWARE = 70
"""A worker's exit code where Chroma or the embedder broke down beyond an exception."""


class WorkerConfig(msgspec.Struct, frozen=True, kw_only=True):
    """One line of JSON on the worker's standard input."""

    bus_url: str
    chroma_path: Path
    collection: str
    models_dir: Path
    embedder: EmbedderChoice
    embedding_model: str
    ollama_url: str
    secret: str = ""
    log_file: Path | None = None

    def to_line(self) -> bytes:
        return msgspec.json.encode(self, enc_hook=str)

    @classmethod
    def from_line(cls, line: str) -> Self:
        return msgspec.json.decode(line, type=cls, dec_hook=lambda kind, value: kind(value))
