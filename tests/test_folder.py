"""The lock on the data folder: one stack and its children own it."""

import subprocess
import sys
from pathlib import Path

import pytest

from local2.errors import FolderLockedError, StorageError
from local2.home import folder_lock


def test_a_locked_folder_is_refused_with_its_holder(tmp_path: Path) -> None:
    code = (
        "import sys; from pathlib import Path; from local2.home import folder_lock\n"
        "with folder_lock(Path(sys.argv[1])): print('locked', flush=True); sys.stdin.read()"
    )
    with subprocess.Popen(
        [sys.executable, "-c", code, str(tmp_path)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as holder:
        assert holder.stdout is not None
        assert holder.stdout.readline() == "locked\n"
        with pytest.raises(FolderLockedError, match=f"process {holder.pid}") as caught:
            folder_lock(tmp_path).__enter__()
        holder.communicate()

    assert caught.value.holder == holder.pid
    with folder_lock(tmp_path):
        assert (tmp_path / "lock").read_text() != str(holder.pid)


def test_failing_to_create_a_folder_is_a_storage_error_that_names_it(tmp_path: Path) -> None:
    (tmp_path / "file").touch()

    with (
        pytest.raises(StorageError, match=r"file/data cannot be written to: Not a directory\."),
        folder_lock(tmp_path / "file" / "data"),
    ):
        pass


def test_a_child_that_inherits_the_lock_holds_it(tmp_path: Path) -> None:
    with folder_lock(tmp_path) as descriptor:
        child = subprocess.Popen(["cat"], stdin=subprocess.PIPE, pass_fds=[descriptor])
    with pytest.raises(FolderLockedError):
        folder_lock(tmp_path).__enter__()
    child.communicate()

    with folder_lock(tmp_path):
        pass
