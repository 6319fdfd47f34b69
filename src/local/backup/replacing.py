"""Puts ledgers into a data folder, and moves those that are there aside.

Whatever is there goes first, its count of commits last: until then no stack starts on the folder
(decision 0035), so that a kill in between never leaves one that looks whole.
"""

from collections.abc import Collection, Mapping
from datetime import datetime
from pathlib import Path

import structlog

from local.backup.files import sync
from local.backup.ledgers import MAIN
from local.errors import UnwritableError

log = structlog.get_logger()


def replace_ledgers(
    data_dir: Path, new: Mapping[str, Path], former: Collection[str], at: datetime
) -> Path | None:
    """Move new ledgers into place, and former ones aside; returns the folder that has these.

    Raises:
        UnwritableError: A file cannot be moved; asked again, it goes on.
    """
    every = sorted({*former, *new}, key=lambda name: name == MAIN)  # that of all tenants last
    aside = data_dir / f"aside-{at:%Y%m%dT%H%M%S%fZ}"
    try:
        for name in every:
            for ending in ("", "-wal", "-shm"):
                _move(data_dir / f"{name}{ending}", aside / f"{name}{ending}")
        for name in (name for name in every if name in new):
            (data_dir / name).parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            new[name].rename(data_dir / name)
            sync((data_dir / name).parent)
        for name in every:
            tally = Path(name).with_suffix(".tally")
            _move(data_dir / tally, aside / tally)
    except OSError as error:
        raise UnwritableError(data_dir, error) from error
    log.info("ledgers_replaced", data=str(data_dir), new=len(new), former=len(former))
    return aside if aside.exists() else None


def _move(file: Path, aside: Path) -> None:
    if file.exists():
        aside.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        file.rename(aside)
        sync(file.parent)
