"""Where the memory of whoever asks lies, a project's own or the user's, and who that is.

A home holds `.local2/`, `.chroma/` and `config/`, as the current folder does for commands.
"""

import getpass
import os
import stat
from collections.abc import Mapping
from pathlib import Path

from local.settings import HOME_VARIABLE

MARK = ".local2"
"""The folder by which a project's memory is known."""
OTHERS = stat.S_IRWXG | stat.S_IRWXO


def home_of(
    explicit: Path | str | None = None, environment: Mapping[str, str] = os.environ
) -> Path:
    """The folder whose memory is meant, as an absolute path; it need not exist.

    That is `explicit`; else the nearest folder upwards from the current one that has a memory;
    else $LOCAL2_HOME; else the user's folder for data.
    """
    if explicit is not None:
        return Path(explicit).expanduser().absolute()
    if (project := _project(Path.cwd())) is not None:
        return project
    return own_home(environment)


def own_home(environment: Mapping[str, str] = os.environ) -> Path:
    """The user's own, whatever folder this is."""
    if named := environment.get(HOME_VARIABLE):
        return Path(named).expanduser().absolute()
    data = environment.get("XDG_DATA_HOME") or "~/.local/share"
    return (Path(data).expanduser() / "local2").absolute()


def _project(folder: Path) -> Path | None:
    """The nearest folder with a memory that a stack of this user made: nobody else may enter it.

    One that came with a repository is open to others; its settings could send memories anywhere.
    """
    return next((each for each in (folder, *folder.parents) if _is_own(each / MARK)), None)


def _is_own(memory: Path) -> bool:
    try:
        found = memory.stat()
    except OSError:
        return False
    mode = found.st_mode
    return stat.S_ISDIR(mode) and found.st_uid == os.getuid() and not mode & OTHERS


def person_of(configured: str | None) -> str:
    """Whose memory it is, for what a person starts: who is configured, else who is logged in."""
    if configured:
        return configured
    try:
        return getpass.getuser()
    except (KeyError, OSError):  # a container need not have names
        return "user"
