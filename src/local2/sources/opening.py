"""Say what a file, an archive or a folder is, and read it as items.

A JSON file is recognised by the fields of its first object, whatever its name. A folder or an
archive with such a file on its first level is an export; any other is a collection of documents.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path, PurePosixPath
from typing import Final, Literal, cast, get_args

from local2.errors import BadRequestError, InvalidArgumentsError, TooLargeError
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
BROKEN: Final = (BadRequestError, TooLargeError)
NOT_READ: Final = "files that cannot be read to their end"
"""The reason for leaving out a file of several; its error names it."""
JSON: Final = frozenset({".json", ".jsonl", ".ndjson"})
"""The endings of files of a folder or an archive that may be parts of an export."""


class Source:
    """An opened source: its format, the bytes to read, and its items, which are read once.

    `bytes_read` grows while they are read, in whatever thread does that; `stop` ends it early.
    """

    def __init__(
        self, format_: Format, files: Sequence[tuple[SourceFile, Shape | None]], left_out: LeftOuts
    ) -> None:
        self.format: Format = format_
        self.left_out = left_out
        self.total_bytes = sum(file.size for file, _ in files)
        self.bytes_read = 0
        self._files = files
        self._stopped = False

    def stop(self) -> None:
        """Let `items` end before the next file or object."""
        self._stopped = True

    def items(self) -> Iterator[Item]:
        """Read the items.

        Of several files, those that cannot be read to their end are left out from there on.

        Raises:
            BadRequestError: The only file cannot be read to its end.
            TooLargeError: An object of the only file is too large.
        """
        if self.format == "documents":
            return documents.items(self._documents(), self.left_out, lambda: self._stopped)
        return READERS[self.format](self._objects(), self.left_out)

    def _documents(self) -> Iterator[SourceFile]:
        for file, _ in self._files:
            yield file
            self.bytes_read += file.size

    def _objects(self) -> Iterator[FoundObject]:
        for file, shape in self._files:
            read = shape or Shape.guessed(file)
            begun = self.bytes_read
            try:
                for found in objects_in(file, read, self.left_out, self._count):
                    if self._stopped:
                        return
                    yield found
            except BROKEN as error:
                if len(self._files) == 1:
                    raise
                self.left_out.refuse(error.message, NOT_READ)
                self.bytes_read = begun + file.size

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
        # What has one file has its format, whatever the file's name is.
        is_alone = len(files) == 1 and not path.is_dir()

        def may_be_json(file: SourceFile) -> bool:
            if is_alone:
                return file.suffix not in documents.PLAIN | documents.CONVERTED
            return file.suffix in JSON

        shapes = []
        for file in files:
            try:
                shape = shape_of(file, SIGNS) if may_be_json(file) else None
            except BROKEN as error:
                if is_alone:
                    raise
                left_out.refuse(error.message, NOT_READ)
                continue
            if shape is not None and shape.kind == "local2" and file.name != path.name:
                left_out.refuse(file.name, "exports of local2; import each of them by itself")
            else:
                shapes.append((file, shape))
        known = format_
        if known is None:
            folders = {PurePosixPath(file.name).parts[0] for file in files}
            first_level = 2 if len(folders) == 1 else 1  # everything may be in one folder
            for file, shape in shapes:
                if shape is not None and len(PurePosixPath(file.name).parts) <= first_level:
                    known = cast("Format", shape.kind)
                    break
        if known is None and is_alone and shapes and may_be_json(files[0]):
            if not files[0].size:
                raise InvalidArgumentsError(
                    f"{files[0].name} is empty.", remedy="Get it once more."
                )
            raise InvalidArgumentsError(
                f"{files[0].name} has no format that is known.",
                remedy=f"Say what it is, with `local2 import --as`: {', '.join(FORMATS)}.",
            )
        known = known or "documents"
        read = []
        for file, shape in shapes:
            if known == "documents" or (shape is not None and shape.kind == known):
                read.append((file, shape))
            elif format_ is not None and (is_alone or file.suffix in JSON):
                read.append((file, None))
            else:
                left_out.add(file.name, "files of the export without conversations or facts")
        yield Source(known, read, left_out)
