"""What SQLite refuses, said so that somebody can mend it."""

from pathlib import Path

from local.errors import RESTORE, DamagedError, Local2Error, StorageError

REMEDIES = {
    "FULL": "The disk is full: make room.",
    "BUSY": "Another program has it locked: close that, as a shell of sqlite3 or a backup.",
    "LOCKED": "Another program has it locked: close that, as a shell of sqlite3 or a backup.",
    "READONLY": "It cannot be written to: change its permissions, or those of its folder.",
    "CANTOPEN": "Check that its folder is there, and the permissions of both.",
    "PERM": "Change its permissions.",
    "IOERR": "Check the disk and its space.",
    "ERROR": "It is not as this local2 makes it: restore it, or use another data folder.",
}
"""By SQLite's primary result code, https://sqlite.org/rescode.html."""
DAMAGES = {"CORRUPT", "NOTADB"}


def as_storage_error(error: Exception, path: Path | None = None) -> Exception:
    """The error as people read it; one of local2's own stays as it is."""
    if isinstance(error, Local2Error):
        return error
    name = f"The ledger ({path})" if path else "The ledger"
    code = _primary_code(error)
    if code in DAMAGES:
        wrapped: StorageError = DamagedError(f"{name} is damaged: {error}.", remedy=RESTORE)
    else:
        wrapped = StorageError(f"{name} refused: {error}.", remedy=REMEDIES.get(code))
    wrapped.__cause__ = error
    return wrapped


def _primary_code(error: Exception) -> str:
    """As `IOERR` of SQLITE_IOERR_WRITE; errors of Python's own module have none."""
    code = getattr(error, "sqlite_errorname", "")
    return code.split("_")[1] if code else ""
