"""Fetches models by name from a model hub, and checks their files.

What a file must be is not written here: the hub states the digests of a revision's files, and the
revision is pinned. Each file is compared with what the hub states for it, and recorded with its
SHA-256 beside it, which every start compares again.
"""

import hashlib
import os
import shutil
from collections.abc import Callable
from pathlib import Path

import httpx
import msgspec

from local2.atomic_file import write_atomically
from local2.errors import UnavailableError, VectorError, without_credentials

HUB = "https://huggingface.co"
MODEL_FILE, TOKENIZER_FILE, DIGESTS_FILE = "model.onnx", "tokenizer.json", "digests.json"
PATHS = {MODEL_FILE: "onnx/model.onnx", TOKENIZER_FILE: "tokenizer.json"}
"""Paths of a model's files at the hub, by the names that they get."""
UNFINISHED = ".unfinished"
"""End of the name of a folder whose files are being fetched."""
PIECE_BYTES = 1 << 20
TIMEOUT = httpx.Timeout(30.0, connect=10.0)
"""Of connecting, and of each read."""


class HubModel(msgspec.Struct, frozen=True, kw_only=True):
    """A model of the hub; its revision is a commit."""

    repository: str
    revision: str
    licence: str
    summary: str


MODELS = {
    "ms-marco-MiniLM-L-6-v2": HubModel(
        repository="cross-encoder/ms-marco-MiniLM-L6-v2",
        revision="c5ee24cb16019beea0893ab7796b1df96625c6b8",
        licence="Apache-2.0",
        summary="English, 6 layers of width 384",
    ),
    "mmarco-mMiniLMv2-L12-H384-v1": HubModel(
        repository="cross-encoder/mmarco-mMiniLMv2-L12-H384-v1",
        revision="1427fd652930e4ba29e8149678df786c240d8825",
        licence="Apache-2.0",
        summary="multilingual, 12 layers of width 384",
    ),
}
Progress = Callable[[str, int, int], None]
"""Receives the name of a file, the bytes that are there, and its size."""


class FetchError(UnavailableError):
    pass


class Digests(msgspec.Struct, frozen=True, kw_only=True):
    """What DIGESTS_FILE holds: where the files come from, and their SHA-256 by name."""

    repository: str
    revision: str
    sha256: dict[str, str]


class _Lfs(msgspec.Struct, frozen=True):
    sha256: str


class _HubFile(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """What the hub states about a file: a SHA-256, or else git's own digest, which is a SHA-1."""

    rfilename: str
    size: int = 0
    blob_id: str = ""
    lfs: _Lfs | None = None

    def is_equal(self, file: Path) -> bool:
        if file.stat().st_size != self.size:
            return False
        if self.lfs is not None:
            return _digest(file, "sha256") == self.lfs.sha256
        return _digest(file, "sha1", f"blob {self.size}\0".encode()) == self.blob_id


class _HubRevision(msgspec.Struct, frozen=True):
    sha: str
    siblings: list[_HubFile]


def check_files(folder: Path) -> Digests | None:
    """Check that the files of a model exist and have the recorded digests.

    Returns None if none are recorded, as in a folder that somebody made by hand.

    Raises:
        VectorError: A file is missing or cannot be read, or has another digest.
    """
    try:
        for name in PATHS:
            if not (folder / name).is_file():
                raise VectorError(
                    f"The reranker's folder {folder} has no {name}.", remedy=_remedy()
                )
        if not (folder / DIGESTS_FILE).exists():
            return None
        digests = msgspec.json.decode((folder / DIGESTS_FILE).read_bytes(), type=Digests)
        for name, recorded in digests.sha256.items():
            if _digest(folder / name, "sha256") != recorded:
                raise VectorError(
                    f"{folder / name} is not the file that was fetched: its SHA-256 differs from "
                    f"the one in {DIGESTS_FILE}.",
                    remedy=_remedy(folder.name),
                )
    except (OSError, msgspec.MsgspecError) as error:
        raise VectorError(
            f"The reranker's files in {folder} cannot be read: {error}.",
            remedy=_remedy(folder.name),
        ) from error
    return digests


def fetch_model(
    name: str, models_dir: Path, *, hub: str = HUB, progress: Progress = lambda *_: None
) -> tuple[Path, bool]:
    """Fetch a model of MODELS into its folder in `models_dir`, unless it is there and sound.

    Its files are complete in that folder, or it does not exist. What was fetched when it was
    interrupted is kept beside it, and continued the next time.

    Returns:
        The folder, and whether anything was fetched.

    Raises:
        FetchError: The hub cannot be reached, lacks a file, or sends another one than it states;
            or the folder cannot be written to.
    """
    model, folder = MODELS[name], models_dir / name
    try:
        if check_files(folder) is not None:
            return folder, False
    except VectorError:
        pass
    unfinished = models_dir / f".{name}{UNFINISHED}"
    try:
        unfinished.mkdir(parents=True, exist_ok=True)
        with httpx.Client(base_url=hub, follow_redirects=True, timeout=TIMEOUT) as client:
            stated = _stated_files(client, model)
            for file, path in PATHS.items():
                url = f"/{model.repository}/resolve/{model.revision}/{path}"
                _fetch_file(client, url, stated[path], unfinished / file, progress)
        digests = Digests(
            repository=model.repository,
            revision=model.revision,
            sha256={file: _digest(unfinished / file, "sha256") for file in PATHS},
        )
        content = msgspec.json.format(msgspec.json.encode(digests))
        write_atomically(unfinished / DIGESTS_FILE, content, durable=True)
        if folder.exists():
            shutil.rmtree(folder)
        unfinished.rename(folder)
    except (httpx.HTTPError, httpx.InvalidURL) as error:
        status = (
            f"it answered with status {error.response.status_code}"
            if isinstance(error, httpx.HTTPStatusError)
            else f"{type(error).__name__}: {error}".rstrip(".: ")
        )
        files = " and ".join(
            f"{path} as {name}" if path != name else path for name, path in PATHS.items()
        )
        raise FetchError(
            f"The model could not be fetched from {without_credentials(hub)} ({status}).",
            remedy="Try again with a network: what was fetched is kept. Or, on another machine, "
            f"fetch {files} of {HUB}/{model.repository}/tree/{model.revision}, and put them into "
            f"{folder}.",
        ) from error
    except OSError as error:
        raise FetchError(
            f"{models_dir} cannot be written to: {error.strerror or error}.",
            remedy="Make room there, or change its permissions.",
        ) from error
    return folder, True


def _stated_files(client: httpx.Client, model: HubModel) -> dict[str, _HubFile]:
    """Ask the hub what the files of the pinned revision are, by their paths."""
    url = f"/api/models/{model.repository}/revision/{model.revision}"
    response = client.get(url, params={"blobs": "true"})
    response.raise_for_status()
    try:
        answer = msgspec.json.decode(response.content, type=_HubRevision)
    except msgspec.MsgspecError as error:
        raise FetchError(
            f"The hub's answer about {model.repository} cannot be read: {error}.",
            remedy="Something between here and the hub may have answered instead: try another "
            "network.",
        ) from error
    stated = {file.rfilename: file for file in answer.siblings}
    missing = [path for path in PATHS.values() if path not in stated]
    if answer.sha != model.revision or missing:
        what = f"{', '.join(missing)} at" if missing else "the revision"
        raise FetchError(
            f"The hub does not have {what} {model.revision} of {model.repository}.",
            remedy="Its authors may have removed it: use another model.",
        )
    return stated


def _fetch_file(
    client: httpx.Client, url: str, stated: _HubFile, file: Path, progress: Progress
) -> None:
    """Fetch a file, or the rest of one that was interrupted, and compare it with its digest."""
    there = file.stat().st_size if file.exists() else 0
    if there > stated.size or (there == stated.size and not stated.is_equal(file)):
        file.unlink()
        there = 0
    if there < stated.size:
        headers = {"Accept-Encoding": "identity"}
        if there:
            headers["Range"] = f"bytes={there}-"
        with client.stream("GET", url, headers=headers) as response:
            response.raise_for_status()
            continued = response.status_code == httpx.codes.PARTIAL_CONTENT
            with file.open("ab" if continued else "wb") as opened:
                for piece in response.iter_bytes():
                    opened.write(piece)
                    progress(stated.rfilename, opened.tell(), stated.size)
                    # It is not what was asked for, and may have no end.
                    if opened.tell() > stated.size:
                        break
                opened.flush()
                os.fsync(opened.fileno())
    if not stated.is_equal(file):
        file.unlink()
        raise FetchError(
            f"The hub sent another {stated.rfilename} than the one whose digest it states; it was "
            "deleted.",
            remedy="Try again; if it recurs, something between here and the hub changes files.",
        )


def _digest(file: Path, algorithm: str, head: bytes = b"") -> str:
    digest = hashlib.new(algorithm, head)
    with file.open("rb") as opened:
        while piece := opened.read(PIECE_BYTES):
            digest.update(piece)
    return digest.hexdigest()


def _remedy(name: str = "NAME") -> str:
    known = name if name in MODELS else "NAME"
    return (
        f"Run `local2 models get {known}`, or correct `reranker` in config/memory.yaml; then start "
        "the stack again."
    )
