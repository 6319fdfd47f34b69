"""Say what a file, an archive or a folder is, and read it as items.

A JSON file is recognised by the fields of its first object, whatever its name. A folder or an
archive with such a file on its first level is an export; any other is a collection of documents.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path, PurePosixPath
from typing import Final, Literal, get_args

from local2.errors import InvalidArgumentsError
from local2.sources import chatgpt, claude, documents, hindsight, mem0, messages
from local2.sources.files import SourceFile, files_of
from local2.sources.items import Item, LeftOuts
from local2.sources.objects import FoundObject, Shape, objects_in, shape_of

Format = Literal["chatgpt", "claude", "mem0", "hindsight", "messages", "documents", "local2"]
FORMATS: Final[tuple[Format, ...]] = get_args(Format)
TITLES: Final[dict[Format, str]] = {
    "chatgpt": "ChatGPT export",
    "claude": "Claude export",
    "mem0": "mem0 export",
    "hindsight": "Hindsight export",
    "messages": "messages",
    "documents": "documents",
    "local2": "local2 export",
}
READERS: Final[dict[str, Callable[[Iterable[FoundObject], LeftOuts], Iterator[Item]]]] = {
    "chatgpt": chatgpt.items,
    "claude": claude.items,
    "mem0": mem0.items,
    "hindsight": hindsight.items,
    "messages": messages.items,
}
SIGNS: Final[dict[str, dict[str, Format]]] = {
    "": {
        "mapping": "chatgpt",
        "chat_messages": "claude",
        "memory": "mem0",
        "fact_type": "hindsight",
        "facts": "hindsight",
        "source_bank_id": "hindsight",
        "role": "messages",
        "exported_at": "local2",
        "source_class": "local2",
    },
    "item": {
        "mapping": "chatgpt",
        "chat_messages": "claude",
        "memory": "mem0",
        "fact_type": "hindsight",
        "role": "messages",
    },
    "results.item": {"memory": "mem0"},
    "memories.item": {"memory": "mem0", "state": "mem0"},
    "items.item": {"fact_type": "hindsight"},
}
"""By which field of the objects under a prefix (in ijson's form) a format is known."""
JSON: Final = frozenset({".json", ".jsonl", ".ndjson"})


class Source:
    """An opened source: its format, the bytes to read, and its items, which are read once.

    `bytes_read` grows while they are read.
    """

    def __init__(self, format_: Format, files: Sequence[SourceFile], left_out: LeftOuts) -> None:
        self.format: Format = format_
        self.left_out = left_out
        self.total_bytes = sum(file.size for file in files)
        self.bytes_read = 0
        self._files = files

    def items(self) -> Iterator[Item]:
        if self.format == "documents":
            return documents.items(map(self._begun, self._files), self.left_out)
        return READERS[self.format](self._objects(), self.left_out)

    def _begun(self, file: SourceFile) -> SourceFile:
        self.bytes_read += file.size
        return file

    def _objects(self) -> Iterator[FoundObject]:
        for file in self._files:
            shape = _shape(file)
            if shape is None or shape.kind != self.format:
                shape = Shape.guessed(file)
            yield from objects_in(file, shape, self.left_out, self._count)

    def _count(self, number: int) -> None:
        self.bytes_read += number


@contextmanager
def opened(
    path: Path, format_: Format | None = None, *, place: str | None = None
) -> Iterator[Source]:
    """Open a source, and recognise its format unless it is given.

    `place`: where a document is, if not at its path.

    Raises:
        InvalidArgumentsError: There is no such file, or nothing in it is known.
        BadRequestError: It cannot be read.
        TooLargeError: It is a zip bomb, or has too many files.
    """
    left_out = LeftOuts()
    with files_of(path, left_out, place) as files:
        known = format_ or _format_of(files, path)
        read = []
        for file in files:
            if known == "documents" or format_ is not None or _is_of(file, known):
                read.append(file)
            else:
                left_out.add(file.name, "files of the export without conversations or facts")
        yield Source(known, read, left_out)


def _format_of(files: Sequence[SourceFile], path: Path) -> Format:
    """Recognise the format of a source.

    Raises:
        InvalidArgumentsError: It is a single file of no known kind.
    """
    for file in _of_first_level(files):
        shape = _shape(file)
        if shape is not None:
            return shape.kind  # type: ignore[return-value]
    if path.is_dir() or len(files) != 1:
        return "documents"
    (file,) = files
    if file.suffix in documents.PLAIN | documents.CONVERTED:
        return "documents"
    raise InvalidArgumentsError(
        f"{file.name} is nothing that is known.",
        remedy=f"Say what it is, with --as: {', '.join(FORMATS)}.",
    )


def _of_first_level(files: Sequence[SourceFile]) -> Iterator[SourceFile]:
    """Yield the files that are in no folder, or in one that everything is in."""
    folders = {PurePosixPath(file.name).parts[0] for file in files}
    level = 2 if len(folders) == 1 else 1
    return (file for file in files if len(PurePosixPath(file.name).parts) <= level)


def _is_of(file: SourceFile, format_: Format) -> bool:
    shape = _shape(file)
    return shape is not None and shape.kind == format_


def _shape(file: SourceFile) -> Shape | None:
    """The shape of a file if it is JSON of a known format; a single file may have any name."""
    return None if file.suffix in documents.PLAIN | documents.CONVERTED else shape_of(file, SIGNS)
