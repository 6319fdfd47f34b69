"""The common part of HTTP stand-ins: they listen on loopback while a context lasts."""

import threading
from abc import abstractmethod
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, Generic, Self, TypeVar

import msgspec

Json = dict[str, Any]


class StandIn:
    """A test's own server, in a separate thread; `path` is the prefix of its API."""

    path = ""

    def __init__(self, handler: type["Handler[Any]"], port: int = 0) -> None:
        self._server = _Server(self, handler, port)
        self._thread = threading.Thread(
            target=self._server.serve_forever,
            kwargs={"poll_interval": 0.01},
            name=type(self).__name__,
        )

    @property
    def url(self) -> str:
        """Its base URL."""
        return f"http://127.0.0.1:{self._server.server_port}{self.path}"

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    def stop(self) -> None:
        """Refuse connections from now on, like a server that went down; may be repeated."""
        if self._thread.is_alive():
            self._server.shutdown()
            self._server.server_close()
            self._thread.join()


S = TypeVar("S", bound=StandIn)


class _Server(ThreadingHTTPServer):
    def __init__(self, stand_in: Any, handler: type["Handler[Any]"], port: int) -> None:
        self.stand_in = stand_in
        super().__init__(("127.0.0.1", port), handler)


class Handler(BaseHTTPRequestHandler, Generic[S]):
    """One connection to a stand-in."""

    server: _Server

    @property
    def stand_in(self) -> S:
        stand_in: S = self.server.stand_in
        return stand_in

    def do_GET(self) -> None:
        self.answer({})

    def do_POST(self) -> None:
        length = int(self.headers["Content-Length"])
        self.answer(msgspec.json.decode(self.rfile.read(length), type=Json))

    @abstractmethod
    def answer(self, body: Json) -> None:
        """Answer a request to `self.path`."""

    def log_message(self, *_: object) -> None:
        """Keep test output quiet."""
