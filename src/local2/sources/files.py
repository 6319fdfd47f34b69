"""The files of a source: of a folder, of a zip archive, or a single one.

Nothing is ever unpacked to disk, and names inside an archive are only names, so no name leads
anywhere. What an archive claims about its sizes is checked before any of it is read.
"""

import os
import stat
import zipfile
import zlib
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from functools import partial
from pathlib import Path, PurePosixPath
from typing import IO

import msgspec

from local2.errors import BadRequestError, InvalidArgumentsError, TooLargeError
from local2.sources.items import LeftOuts

MAX_FILES = 200_000
MAX_FILE_BYTES = 16_000_000_000
"""Maximum bytes of a file in an archive, unpacked."""
MAX_RATIO = 200
"""How many times their packed size files may have. JSON is packed to a tenth, a zip bomb to less
than a five-hundredth."""
SMALL = 10_000_000
"""Unpacked bytes below which no ratio is checked."""
ENCRYPTED = 0x1
DOCX_PART = "word/document.xml"
READ_ERRORS = (OSError, EOFError, RuntimeError, zipfile.BadZipFile, zlib.error)
"""What reading a file of an archive raises if it is damaged, or locked with a password."""
DAMAGED = "It may be damaged or cut short: get it once more."


class SourceFile(msgspec.Struct, frozen=True, kw_only=True):
    """A file of a source.

    `name`: its path in the source. `place`: where it is, which identifies a document. `open`:
    opens it for reading.
    """

    name: str
    place: str
    size: int
    open: Callable[[], IO[bytes]]

    @property
    def suffix(self) -> str:
        return PurePosixPath(self.name).suffix.lower()

    @property
    def stem(self) -> str:
        return PurePosixPath(self.name).stem


@contextmanager
def reading(name: str) -> Iterator[None]:
    """Turn the errors of reading a file into one that names it."""
    try:
        yield
    except READ_ERRORS as error:
        why = getattr(error, "strerror", None) or str(error)
        remedy = None if isinstance(error, OSError) else DAMAGED
        raise BadRequestError(f"{name} cannot be read: {why}.", remedy=remedy) from error


@contextmanager
def files_of(path: Path, left_out: LeftOuts, place: str | None) -> Iterator[list[SourceFile]]:
    """List the files of a folder or an archive by name; a single file is its own list.

    `place`: where a single file is, if not at its path.

    Raises:
        InvalidArgumentsError: There is no such file or folder.
        BadRequestError: The archive is damaged.
        TooLargeError: The archive is a zip bomb, or has too many files.
    """
    if not path.exists():
        raise InvalidArgumentsError(f"{_text(path)} does not exist.")
    if path.is_dir():
        yield _files_in_folder(path, left_out)
        return
    with ExitStack() as opened:
        archive: zipfile.ZipFile | None = None
        if zipfile.is_zipfile(path) or path.suffix.lower() == ".zip":
            with reading(_text(path.name)):
                archive = opened.enter_context(zipfile.ZipFile(path))
        if archive is None or DOCX_PART in archive.namelist():  # a DOCX file is an archive, too
            yield [file_at(path, _text(path.name), place)]
            return
        check_archive(archive, path.stat().st_size, _text(path.name))
        files = []
        for info in sorted(archive.infolist(), key=lambda info: info.filename):
            if info.is_dir():
                continue
            name = repr(info.filename)[1:-1]
            if (reason := _why_never_imported(info)) is not None:
                left_out.add(name, reason)
                continue
            if (reason := _why_refused(info)) is not None:
                left_out.refuse(name, reason)
                continue
            files.append(
                SourceFile(
                    name=info.filename,
                    place=f"{_text(path.name)}/{info.filename}",
                    size=info.file_size,
                    open=partial(archive.open, info),
                )
            )
        yield files


def _text(path: Path | str) -> str:
    """A path as text that can be printed and sent, whatever its bytes."""
    return os.fsencode(path).decode("utf-8", "replace")


def file_at(path: Path, name: str, place: str | None = None) -> SourceFile:
    """The file at a path; whether there is one shows when it is opened."""
    return SourceFile(
        name=name,
        place=place or _text(path.resolve()),
        size=path.stat().st_size if path.exists() else 0,
        open=lambda: path.open("rb"),
    )


def _files_in_folder(folder: Path, left_out: LeftOuts) -> list[SourceFile]:
    """List the files; links are not followed, since they may lead out of the folder."""
    files: list[SourceFile] = []
    for parent, folders, names in os.walk(folder):
        links = [name for name in folders if (Path(parent) / name).is_symlink()]
        hidden = [name for name in folders if name.startswith(".") and name not in links]
        for name in hidden:
            left_out.add(_text((Path(parent) / name).relative_to(folder)), "hidden files")
        folders[:] = sorted(set(folders) - {*links, *hidden})
        for name in sorted([*names, *links]):
            path = Path(parent) / name
            shown = _text(path.relative_to(folder).as_posix())
            mode = path.lstat().st_mode
            if name.startswith("."):
                left_out.add(shown, "hidden files")
            elif stat.S_ISLNK(mode):
                left_out.add(shown, "links")
            elif not stat.S_ISREG(mode):
                left_out.add(shown, "no files, but pipes or devices")
            else:
                files.append(file_at(path, shown))
                _check_count(len(files), _text(folder))
    return files


def check_archive(archive: zipfile.ZipFile, size: int, name: str) -> None:
    """Check what the archive of `size` bytes says about its files.

    Raises:
        TooLargeError: Unpacked it would be far larger, or it has too many files.
    """
    infos = archive.infolist()
    _check_count(len(infos), name)
    unpacked = sum(info.file_size for info in infos)
    if unpacked > max(SMALL, MAX_RATIO * size):
        raise TooLargeError(
            f"{name} would be {unpacked:,} bytes unpacked, more than {MAX_RATIO} times its size.",
            remedy="It looks like a zip bomb. Unpack it yourself if you trust it, and import the "
            "folder.",
        )


def _check_count(count: int, name: str) -> None:
    if count > MAX_FILES:
        raise TooLargeError(
            f"{name} has more than {MAX_FILES:,} files.", remedy="Import its parts one by one."
        )


def _why_never_imported(info: zipfile.ZipInfo) -> str | None:
    parts = _parts_of(info)
    if stat.S_ISLNK(info.external_attr >> 16):
        return "links"
    if parts and (parts[0] == "__MACOSX" or parts[-1].startswith(".")):
        return "hidden files"
    return None


def _why_refused(info: zipfile.ZipInfo) -> str | None:
    parts = _parts_of(info)
    if not parts or ".." in parts or parts[0] == "/" or ":" in parts[0] or "\0" in info.filename:
        return "paths that lead out of the archive"
    if info.flag_bits & ENCRYPTED:
        return "locked with a password"
    if info.file_size > MAX_FILE_BYTES:
        return f"larger than {MAX_FILE_BYTES:,} bytes"
    if info.file_size > max(SMALL, MAX_RATIO * info.compress_size):
        return f"more than {MAX_RATIO} times as large unpacked, like a zip bomb"
    return None


def _parts_of(info: zipfile.ZipInfo) -> tuple[str, ...]:
    return PurePosixPath(info.filename.replace("\\", "/")).parts
