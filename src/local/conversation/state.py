"""A conversation in a file: JSON, with a version, whole or not there at all."""

import os
import tempfile
from pathlib import Path
from typing import Annotated, Any

import msgspec

from local.conversation.conversation import Snapshot
from local.errors import ConversationError

VERSION = 1
State = dict[str, Any]


class _Form(msgspec.Struct, frozen=True):
    """What every version of the form says first."""

    version: Annotated[int, msgspec.Meta(ge=1)]


class Saved(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    version: int
    memory_type: str
    memory: Snapshot
    additional_state: State | None = None


def save(path: Path, saved: Saved) -> None:
    """Write the file beside its place and move it there. Blocks until it is on disk.

    A link stays one: it is the file it leads to that is written.

    Raises:
        ConversationError: The folder or the disk refuses, or reading it would not give the same.
    """
    try:
        _write(Path(os.path.realpath(path)), _encoded(saved))
    except (OSError, TypeError, ValueError, RecursionError) as error:
        raise ConversationError(f"The conversation cannot be saved to {path}: {error}.") from error


def load(path: Path) -> Saved:
    """Read such a file.

    Raises:
        ConversationError: It cannot be read, is damaged, or was written by a newer version.
    """
    try:
        data = path.read_bytes()
    except (OSError, ValueError) as error:
        raise ConversationError(f"The conversation in {path} cannot be read: {error}.") from error
    try:
        version = msgspec.json.decode(data, type=_Form).version
        if version == VERSION:
            return msgspec.json.decode(data, type=Saved)
    except (ValueError, RecursionError) as error:
        raise ConversationError(
            f"{path} is no saved conversation, or a damaged one: {error}.",
            remedy="Load another file, or begin a new conversation.",
        ) from error
    raise ConversationError(
        f"{path} has version {version} of the form; this local2 knows {VERSION}.",
        remedy="Update local2.",
    )


def _encoded(saved: Saved) -> bytes:
    data = msgspec.json.encode(saved)
    if msgspec.json.decode(data, type=Saved) != saved:
        raise ValueError("something in it has no equal in JSON, such as a tuple, bytes or NaN")
    return data


def _write(path: Path, data: bytes) -> None:
    descriptor, name = tempfile.mkstemp(dir=path.parent, prefix=".saving.")
    try:
        with os.fdopen(descriptor, "wb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        Path(name).replace(path)
    except BaseException:
        Path(name).unlink(missing_ok=True)
        raise
    folder = os.open(path.parent, os.O_RDONLY)
    try:
        os.fsync(folder)
    finally:
        os.close(folder)
