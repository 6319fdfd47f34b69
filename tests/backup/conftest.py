"""Folders with a ledger of notes, which tests copy instead of storing the notes."""

import asyncio
import shutil
from collections.abc import Callable
from functools import cache
from pathlib import Path

import pytest

from backups import remember

CopyNotes = Callable[[int, Path], None]


@pytest.fixture(scope="session")
def copy_notes(tmp_path_factory: pytest.TempPathFactory) -> CopyNotes:
    """Give a folder a ledger with so many notes."""

    @cache
    def folder_of(count: int) -> Path:
        folder = tmp_path_factory.mktemp("notes")
        asyncio.run(remember(folder, 0, count))
        return folder

    def copy(count: int, to: Path) -> None:
        shutil.copytree(folder_of(count), to, dirs_exist_ok=True)

    return copy
