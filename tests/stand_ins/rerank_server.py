"""A loopback server that speaks the rerank API of Cohere and Jina, with answers the test writes.

with RerankStandIn() as server:
    server.script(Answer(results=[(1, 0.9), (0, 0.2)]), Answer(status=500))
    reranker = await HttpReranker.open(server.url)
"""

import re
import threading
from collections import deque
from collections.abc import Mapping, Sequence
from contextlib import suppress

import msgspec
from msgspec import Struct

from stand_ins.server import Handler, Json, StandIn


class Answer(Struct, frozen=True, kw_only=True):
    """An answer; without `results` or `raw`, it scores by the words shared with the query."""

    results: Sequence[tuple[int, float]] | None = None
    status: int = 200
    raw: bytes | None = None
    """Sent unchanged: what a broken server would send."""
    held: bool = False
    """Whether to wait for `release`."""


class Request(Struct, frozen=True, kw_only=True):
    path: str
    headers: Mapping[str, str]
    body: Json
    client: tuple[str, int]


class RerankStandIn(StandIn):
    """A server whose answers come from `script`, then count shared words."""

    path = "/rerank"

    def __init__(self) -> None:
        self.requests: list[Request] = []
        self.released = threading.Event()
        self._script: deque[Answer] = deque()
        super().__init__(_Handler)

    def stop(self) -> None:
        """Refuse connections from now on, like a server that went down; may be repeated."""
        self.release()
        super().stop()

    def script(self, *answers: Answer) -> None:
        self._script.extend(answers)

    def release(self) -> None:
        """Send the held answers."""
        self.released.set()

    def next_answer(self) -> Answer:
        return self._script.popleft() if self._script else Answer()


class _Handler(Handler[RerankStandIn]):
    protocol_version = "HTTP/1.1"  # connections stay open until the client leaves
    disable_nagle_algorithm = True

    def answer(self, body: Json) -> None:
        stand_in = self.stand_in
        answer = stand_in.next_answer()
        stand_in.requests.append(
            Request(
                path=self.path,
                headers={name.lower(): value for name, value in self.headers.items()},
                body=body,
                client=self.client_address,
            )
        )
        if answer.held:
            stand_in.released.wait()
        with suppress(ConnectionError):  # the client left before the answer was sent
            self._send(answer, body)

    def _send(self, answer: Answer, body: Json) -> None:
        content = answer.raw if answer.raw is not None else _results(answer, body)
        self.send_response(answer.status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)


def _results(answer: Answer, body: Json) -> bytes:
    results = answer.results
    if results is None:
        results = [(i, _shared(body["query"], text)) for i, text in enumerate(body["documents"])]
    return msgspec.json.encode(
        {"results": [{"index": index, "relevance_score": score} for index, score in results]}
    )


def _shared(query: str, document: str) -> float:
    query_words = set(re.findall(r"\w+", query.lower()))
    return len(query_words & set(re.findall(r"\w+", document.lower()))) / max(len(query_words), 1)
