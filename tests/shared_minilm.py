"""MiniLM, loaded once per test process and before others are forked from it.

Loading takes 0.35 s of processor time and 100 MB, and every stack would do it again.
"""

from pathlib import Path

from local.vectors import weights
from local.vectors.minilm import MiniLM

_load = MiniLM.load
_installed_folder = weights.installed_folder()
_installed = _load(Path())


def _load_shared(models_dir: Path) -> MiniLM:
    """Return the shared one, unless a test has replaced its weights."""
    if weights.installed_folder() == _installed_folder:
        return _installed
    return _load(models_dir)


MiniLM.load = _load_shared  # type: ignore[method-assign]
