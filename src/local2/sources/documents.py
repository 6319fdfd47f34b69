"""Documents: Markdown and text as they are; HTML, PDF and DOCX converted to Markdown.

Converting runs in a process of its own, with a limit of memory and time for each file, because a
small file can be made so that it needs any amount of both. It opens no address and no other file.
"""

import io
import logging
import multiprocessing
import signal
import warnings
import zipfile
from collections.abc import Callable, Iterable, Iterator
from importlib.util import find_spec
from multiprocessing.connection import Connection
from multiprocessing.process import BaseProcess
from typing import Final, Self

from local2.errors import BadRequestError, Local2Error, TooLargeError, extra_to_install
from local2.protocol.memories import MAX_DOCUMENT, MAX_TITLE, check_document_size
from local2.sources.files import DOCX_PART, SourceFile, check_archive, reading
from local2.sources.items import Document, LeftOuts

PLAIN: Final = frozenset({".md", ".markdown", ".txt", ".text"})
CONVERTED: Final = frozenset({".html", ".htm", ".pdf", ".docx"})
MAX_CONVERTED = 50_000_000
"""Maximum bytes of a file that is converted."""
CONVERTING_BYTES = 2_000_000_000
"""Memory that converting may use."""
CONVERTING_SECONDS = 60
"""Processor time that converting a file may take."""
STOP_SECONDS = 0.2
"""Seconds after which converting notices that it is to be stopped."""


def items(
    files: Iterable[SourceFile], left_out: LeftOuts, is_stopped: Callable[[], bool]
) -> Iterator[Document]:
    """Read the documents among the files, until it is to be stopped."""
    with Converter(is_stopped) as converter:
        for file in files:
            if is_stopped():
                return
            try:
                if file.suffix in PLAIN:
                    content = text_of(file)
                elif file.suffix in CONVERTED:
                    content = converter.markdown_of(file)
                else:
                    left_out.add(file.name, "files of other kinds")
                    continue
            except Local2Error as error:
                left_out.refuse(f"{file.name}: {error}", "documents that could not be read")
                continue
            yield Document(source=file.place, title=file.stem[:MAX_TITLE], content=content)


def text_of(file: SourceFile) -> str:
    """Read a text in UTF-8.

    Raises:
        BadRequestError: It cannot be read, or is not text.
        TooLargeError: It is larger than a document may be.
    """
    with reading("It"), file.open() as opened:
        data = opened.read(MAX_DOCUMENT + 1)
    if len(data) > MAX_DOCUMENT:
        raise TooLargeError(
            f"The document has more than the maximum of {MAX_DOCUMENT:,} bytes.", remedy="Split it."
        )
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise BadRequestError("It is not UTF-8 text.") from error
    return checked(text)


def checked(text: str) -> str:
    """Check that a text can be stored as a document.

    Raises:
        BadRequestError: It is empty, or not text.
        TooLargeError: It is larger than a document may be.
    """
    if "\x00" in text:
        raise BadRequestError("It is not UTF-8 text.")
    if not text.strip():
        raise BadRequestError("It is empty.")
    check_document_size(text)
    return text


class Converter:
    """Converts documents to Markdown in another process, which starts with the first of them."""

    def __init__(self, is_stopped: Callable[[], bool]) -> None:
        self._is_stopped = is_stopped
        self._process: BaseProcess | None = None
        self._connection: Connection | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._end()

    def markdown_of(self, file: SourceFile) -> str:
        """Convert a document.

        Raises:
            BadRequestError: It is damaged, has no text, or needs too much to be converted.
            TooLargeError: It, or its text, is too large.
        """
        if find_spec("markitdown") is None:
            raise BadRequestError(
                f"A {file.suffix} file has to be converted.", remedy=extra_to_install("documents")
            )
        with reading("It"), file.open() as opened:
            data = opened.read(MAX_CONVERTED + 1)
        if len(data) > MAX_CONVERTED:
            raise TooLargeError(f"It has more than {MAX_CONVERTED:,} bytes.", remedy="Split it.")
        if file.suffix == ".docx":
            with reading("It"), zipfile.ZipFile(io.BytesIO(data)) as archive:
                check_archive(archive, len(data), "It")
                if DOCX_PART not in archive.namelist():
                    raise BadRequestError("It is no Word document.")
        if self._connection is None:
            context = multiprocessing.get_context("spawn")  # not a fork: this process has threads
            self._connection, other_end = context.Pipe()
            self._process = context.Process(target=_convert_all, args=(other_end,), daemon=True)
            self._process.start()
            other_end.close()
        connection = self._connection
        try:
            connection.send((data, file.suffix, CONVERTING_SECONDS))
            while not connection.poll(STOP_SECONDS):
                if self._is_stopped():
                    self._end()
                    raise BadRequestError("It was interrupted.")
            text = connection.recv()
        except (EOFError, OSError) as error:  # the process has ended
            self._end()
            raise BadRequestError("Converting it needs too much time or memory.") from error
        if text is None:
            raise BadRequestError("It is damaged, or needs too much memory.")
        return checked(text)

    def _end(self) -> None:
        if self._process is not None and self._connection is not None:
            self._connection.close()
            self._process.kill()
            self._process.join()
        self._process = self._connection = None


def _convert_all(connection: Connection) -> None:
    """Convert what comes, in the process for it, until the other end is closed or a limit met."""
    import resource  # noqa: PLC0415 - it does not exist for Windows

    from markitdown import MarkItDown, StreamInfo  # noqa: PLC0415 - it is slow to import
    from markitdown.converters import (  # noqa: PLC0415
        DocxConverter,
        HtmlConverter,
        PdfConverter,
    )

    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the other process ends this one
    logging.disable()  # the libraries report each fault of a file, on the command's terminal
    warnings.simplefilter("ignore")
    resource.setrlimit(resource.RLIMIT_AS, (CONVERTING_BYTES, CONVERTING_BYTES))
    converter = MarkItDown(enable_builtins=False)  # others take a damaged PDF file for plain text
    for known in (HtmlConverter, PdfConverter, DocxConverter):
        converter.register_converter(known())
    while True:
        try:
            data, suffix, seconds = connection.recv()
        except EOFError:
            return
        used = resource.getrusage(resource.RUSAGE_SELF)
        until = int(used.ru_utime + used.ru_stime) + seconds
        resource.setrlimit(resource.RLIMIT_CPU, (until, resource.RLIM_INFINITY))
        stream_info = StreamInfo(extension=suffix)
        try:
            text = converter.convert_stream(io.BytesIO(data), stream_info=stream_info).markdown
        except Exception:  # noqa: BLE001 - its libraries raise anything for a damaged file
            text = None
        connection.send(text)
