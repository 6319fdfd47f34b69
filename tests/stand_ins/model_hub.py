"""A loopback server that serves a model's files as the hub does: their digests, then a redirect.

with ModelHub(MODELS["ms-marco-MiniLM-L-6-v2"], {"onnx/model.onnx": b"…"}) as hub:
    fetch_model("ms-marco-MiniLM-L-6-v2", folder, hub=hub.url)
"""

import hashlib
from collections.abc import Mapping
from contextlib import suppress
from urllib.parse import urlsplit

import msgspec
from msgspec import Struct

from local2.model_files import HubModel
from stand_ins.server import Handler, Json, StandIn


class Download(Struct, frozen=True, kw_only=True):
    path: str
    range: str | None


class ModelHub(StandIn):
    """One revision of a model; files named `*.onnx` are in LFS, the others in git."""

    def __init__(self, model: HubModel, files: Mapping[str, bytes]) -> None:
        self.model = model
        self.stated = dict(files)
        """The content of which the hub states the digests."""
        self.files = dict(files)
        """The content that it sends."""
        self.sha = model.revision
        self.breaks_after: int | None = None
        """Number of bytes of a file after which it breaks the connection."""
        self.knows_ranges = True
        self.status = 200
        """Of every answer."""
        self.answer_about: bytes | None = None
        """Sent instead of the digests."""
        self.downloads: list[Download] = []
        super().__init__(_Handler)

    def about(self) -> bytes:
        """Return what the hub states about the revision."""
        if self.answer_about is not None:
            return self.answer_about
        return msgspec.json.encode(
            {"sha": self.sha, "siblings": [_stated(*named) for named in self.stated.items()]}
        )


def _stated(path: str, content: bytes) -> Json:
    head = f"blob {len(content)}\0".encode()
    stated: Json = {
        "rfilename": path,
        "size": len(content),
        "blobId": hashlib.sha1(head + content).hexdigest(),  # noqa: S324 - as git does
    }
    if path.endswith(".onnx"):
        digest = hashlib.sha256(content).hexdigest()
        # The blob is then the pointer to the file.
        stated |= {"blobId": "0" * 40, "lfs": {"sha256": digest, "size": len(content)}}
    return stated


class _Handler(Handler[ModelHub]):
    def answer(self, body: Json) -> None:  # noqa: ARG002 - there is none
        hub, path = self.stand_in, urlsplit(self.path).path
        model = hub.model
        resolved = f"/{model.repository}/resolve/{model.revision}/"
        if hub.status != 200:
            self._send(hub.status, b"")
        elif path == f"/api/models/{model.repository}/revision/{model.revision}":
            self._send(200, hub.about())
        elif path.startswith(resolved):
            self._send(302, b"", Location=f"/cdn/{path.removeprefix(resolved)}")
        elif path.startswith("/cdn/"):
            self._send_file(path.removeprefix("/cdn/"))
        else:
            self._send(404, b"")

    def _send_file(self, path: str) -> None:
        hub, wanted = self.stand_in, self.headers.get("Range")
        hub.downloads.append(Download(path=path, range=wanted))
        content, status = hub.files[path], 200
        if wanted and hub.knows_ranges:
            content, status = content[int(wanted.removeprefix("bytes=").rstrip("-")) :], 206
        sent, hub.breaks_after = hub.breaks_after, None
        with suppress(ConnectionError):  # the client left
            self._send(status, content, cut_at=sent)

    def _send(
        self, status: int, content: bytes, *, cut_at: int | None = None, **headers: str
    ) -> None:
        self.send_response(status)
        self.send_header("Content-Length", str(len(content)))
        for name, value in headers.items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(content[:cut_at])
