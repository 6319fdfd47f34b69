"""A loopback server that speaks OpenAI's HTTP API, with answers the test writes.

with OpenAIStandIn() as server:
    server.script(Reply(tool_calls=(("recall_topic", {"topic": "user.name"}),)))
    server.script(Reply(content="You are Richard."))
    server.script_json({"verdicts": []})
    server.fail_next(Failure(status=429, headers={"Retry-After": "1"}))
    endpoint = Endpoint(url=server.url, settings="config/generator.yaml")
"""

import re
import struct
import sys
import time
from base64 import b64encode
from collections import deque
from collections.abc import Iterator, Mapping
from contextlib import suppress
from typing import Any

import msgspec
from msgspec import Struct

from stand_ins.ollama_server import Reply, Responder, Trouble, embed
from stand_ins.server import Handler, Json, StandIn


class Request(Struct, frozen=True, kw_only=True):
    path: str
    headers: Mapping[str, str]
    body: Json


class Failure(Struct, frozen=True, kw_only=True):
    """A failure sent instead of an answer."""

    status: int = 500
    message: str = "the stand-in was told to fail"
    code: str | None = None
    headers: Mapping[str, str] = {}
    raw: bytes | None = None
    """Sent unchanged instead of an error in OpenAI's form."""


GARBAGE = b"\x00 no JSON at all", b'{"data": [{"embedding": ["?"]}], "choices": 7}'


class OpenAIStandIn(StandIn):
    """A server whose answers come from `script`, then `responder`, then are "Understood.".

    Chats that do not stream are answered from `script_json`, then with "{}".
    """

    path = "/v1"

    def __init__(self, port: int = 0) -> None:
        self.models = ["gemma4", "nomic-embed-text"]
        self.lists = True
        """Whether it has a list of its models."""
        self.key: str | None = None
        """The only key that it accepts."""
        self.refuses: set[str] = set()
        """Parameters and values that it refuses, such as `temperature`, `json_schema`."""
        self.speaks_base64 = True
        self.most_characters: int | None = None
        """Maximum characters of all texts of a request together."""
        self.requests: list[Request] = []
        self.responder: Responder | None = None
        self.trouble: Trouble | None = None
        self.headers: dict[str, str] = {}
        """Sent with every answer."""
        self.stopped = False
        self._script: deque[Reply] = deque()
        self._json_script: deque[Reply] = deque()
        self._failures: deque[Failure] = deque()
        super().__init__(_Handler, port)

    def stop(self) -> None:
        """Refuse connections from now on, like a server that went down; may be repeated."""
        self.trouble = None
        self.stopped = True
        super().stop()

    def script(self, *replies: Reply) -> None:
        self._script.extend(replies)

    def script_json(self, *answers: object) -> None:
        """Script answers that do not stream: a Reply is sent unchanged, anything else as JSON."""
        for answer in answers:
            reply = answer if isinstance(answer, Reply) else Reply(content=_text(answer))
            self._json_script.append(reply)

    def fail_next(self, *failures: Failure) -> None:
        """Answer the next requests, whatever their paths, with these failures."""
        self._failures.extend(failures)

    def bodies(self, path: str) -> list[Json]:
        """Return the bodies of the requests to this path so far, oldest first."""
        return [request.body for request in self.requests if request.path == f"/v1/{path}"]

    def next_failure(self) -> Failure | None:
        return self._failures.popleft() if self._failures else None

    def next_reply(self, body: Json) -> Reply:
        if not body.get("stream"):
            return self._json_script.popleft() if self._json_script else Reply(content="{}")
        if self._script:
            return self._script.popleft()
        if self.responder is not None:
            return self.responder(body["messages"], body.get("tools", []))
        return Reply(content="Understood.")


def _text(value: object) -> str:
    return msgspec.json.encode(value).decode()


class _Handler(Handler[OpenAIStandIn]):
    protocol_version = "HTTP/1.1"  # connections stay open until the client leaves
    disable_nagle_algorithm = True

    def answer(self, body: Json) -> None:
        stand_in = self.stand_in
        headers = {name.lower(): value for name, value in self.headers.items()}
        stand_in.requests.append(Request(path=self.path, headers=headers, body=body))
        with suppress(ConnectionError):  # the client left before the answer was sent
            while stand_in.trouble == "hangs":
                time.sleep(0.01)
            if stand_in.trouble == "crashes" or stand_in.stopped:
                self.close_connection = True
            elif stand_in.trouble == "garbles":
                self._send(GARBAGE[len(stand_in.requests) % len(GARBAGE)])
            elif failure := stand_in.next_failure() or self._refusal(body):
                self._fail(failure)
            else:
                self._route(body)

    def _refusal(self, body: Json) -> Failure | None:
        stand_in, model = self.stand_in, body.get("model")
        if stand_in.key and self.headers["Authorization"] != f"Bearer {stand_in.key}":
            # Some servers repeat the key that they refuse.
            key = self.headers["Authorization"]
            return Failure(status=401, message=f"Incorrect API key provided: {key}")
        if model is not None and model not in stand_in.models:
            return Failure(
                status=404, message=f"The model `{model}` does not exist", code="model_not_found"
            )
        text = _text(body)
        for refused in stand_in.refuses:
            if f'"{refused}"' in text:
                return Failure(status=400, message=f"Unsupported value: '{refused}'")
        texts = body.get("input", [])
        if sum(map(len, texts)) > (stand_in.most_characters or sys.maxsize):
            return Failure(status=400, message="This model's maximum context length is exceeded.")
        return None

    def _route(self, body: Json) -> None:
        stand_in = self.stand_in
        if self.path == "/v1/models" and stand_in.lists:
            self._send_json({"data": [{"id": name} for name in stand_in.models]})
        elif self.path == "/v1/embeddings":
            self._send_json(_embeddings(body, in_base64=stand_in.speaks_base64))
        elif self.path == "/v1/chat/completions":
            self._chat(body, stand_in.next_reply(body))
        else:
            self._fail(Failure(status=404, message="Not Found"))

    def _chat(self, body: Json, reply: Reply) -> None:
        if not body.get("stream"):
            if reply.hold is not None:
                reply.hold.wait(timeout=10)
            message = {"role": "assistant", "content": reply.content}
            choice = {"index": 0, "message": message, "finish_reason": "stop"}
            answer = _text({"choices": [choice], "usage": _usage(body, 1)}).encode()
            self._send(answer if reply.raw is None else reply.raw)
            return
        self._send_head(200, {"Content-Type": "text/event-stream", "Connection": "close"})
        if reply.raw is not None:
            self.wfile.write(reply.raw)
            return
        for number, piece in enumerate(_pieces(reply, body)):  # the first is empty
            if number == 2 and reply.hold is not None:
                reply.hold.wait(timeout=10)
            self.wfile.write(event(piece))
        self.wfile.write(b"data: [DONE]\n\n")

    def _fail(self, failure: Failure) -> None:
        error = {"message": failure.message, "type": "error", "code": failure.code}
        content = _text({"error": error}).encode() if failure.raw is None else failure.raw
        self._send(content, status=failure.status, headers=failure.headers)

    def _send_json(self, answer: Json) -> None:
        self._send(msgspec.json.encode(answer))

    def _send(self, content: bytes, *, status: int = 200, headers: Mapping[str, str] = {}) -> None:
        length = {"Content-Type": "application/json", "Content-Length": str(len(content))}
        self._send_head(status, {**length, **headers})
        self.wfile.write(content)

    def _send_head(self, status: int, headers: Mapping[str, str]) -> None:
        self.send_response(status)
        for name, value in {**self.stand_in.headers, **headers}.items():
            self.send_header(name, value)
        self.end_headers()


def event(piece: Any) -> bytes:
    """Return a server-sent event."""
    return b"data: " + msgspec.json.encode(piece) + b"\n\n"


def _embeddings(body: Json, *, in_base64: bool) -> Json:
    vectors: list[Any] = [embed(text) for text in body["input"]]
    if in_base64 and body.get("encoding_format") == "base64":
        vectors = [_as_base64(vector) for vector in vectors]
    data = [{"index": n, "embedding": vector} for n, vector in enumerate(vectors)]
    return {"object": "list", "model": body["model"], "data": data}


def _as_base64(vector: list[float]) -> str:
    return b64encode(struct.pack(f"<{len(vector)}f", *vector)).decode()


def _usage(body: Json, written: int) -> Json:
    read = len(_text(body["messages"])) // 4 + 1
    return {"prompt_tokens": read, "completion_tokens": written, "total_tokens": read + written}


def _pieces(reply: Reply, body: Json) -> Iterator[Json]:
    """Yield the events of a streamed answer: one word each, calls in halves, usage if requested."""
    deltas: list[Json] = [{"role": "assistant", "content": ""}]
    deltas += [{"reasoning_content": piece} for piece in re.findall(r"\s*\S+", reply.thinking)]
    deltas += [{"content": piece} for piece in re.findall(r"\s*\S+", reply.content)]
    for index, (name, arguments) in enumerate(reply.tool_calls):
        text = _text(arguments)
        first = {"name": name, "arguments": text[:5]}
        deltas.append({"tool_calls": [{"index": index, "id": f"call_{index}", "function": first}]})
        deltas.append({"tool_calls": [{"index": index, "function": {"arguments": text[5:]}}]})
    for delta in deltas:
        yield {"choices": [{"index": 0, "delta": delta, "finish_reason": None}]}
    reason = "tool_calls" if reply.tool_calls else "stop"
    yield {"choices": [{"index": 0, "delta": {}, "finish_reason": reason}]}
    if body.get("stream_options", {}).get("include_usage"):
        yield {"choices": [], "usage": _usage(body, len(deltas))}
