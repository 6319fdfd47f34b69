"""A file is replaced completely or not at all."""

import os
import stat
from pathlib import Path

import pytest

from local2.atomic_file import PRIVATE_FILE, write_atomically


@pytest.mark.parametrize("durable", [False, True])
def test_the_content_is_replaced_and_nothing_else_is_left(tmp_path: Path, durable: bool) -> None:
    file = tmp_path / "state.json"

    write_atomically(file, b"a longer first content", durable=durable)
    write_atomically(file, b"second", durable=durable)

    assert file.read_bytes() == b"second"
    assert list(tmp_path.iterdir()) == [file]


def test_a_failure_leaves_the_old_content_and_nothing_else(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "state.json"
    file.write_bytes(b"first")

    def fail(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", fail)
    with pytest.raises(OSError, match="No space left"):
        write_atomically(file, b"second", durable=True)

    assert file.read_bytes() == b"first"
    assert list(tmp_path.iterdir()) == [file]


@pytest.mark.parametrize(
    ("mode", "expected"), [(None, 0o640), (PRIVATE_FILE, 0o600), (0o664, 0o664)]
)
def test_a_mode_is_exact_and_without_one_the_umask_decides(
    tmp_path: Path, mode: int | None, expected: int
) -> None:
    file = tmp_path / "state.json"
    umask = os.umask(0o027)
    try:
        write_atomically(file, b"content", mode=mode)
    finally:
        os.umask(umask)

    assert stat.S_IMODE(file.stat().st_mode) == expected
