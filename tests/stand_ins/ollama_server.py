"""A loopback server that speaks Ollama's HTTP API, with answers the test writes.

with OllamaStandIn() as server:
    server.script(Reply(tool_calls=(("recall_topic", {"topic": "user.name"}),)))
    server.script(Reply(content="You are Richard."))
    server.script_json({"verdicts": []})
    client = AsyncClient(host=server.url)
"""

import math
import re
import threading
import time
import zlib
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import suppress
from typing import Literal

import msgspec
from msgspec import Struct

from stand_ins.server import Handler, Json, StandIn

DIMENSIONS = 256


class Reply(Struct, frozen=True, kw_only=True):
    """One answer of the chat model: thinking first, then content, then all tool calls at once."""

    content: str = ""
    thinking: str = ""
    tool_calls: tuple[tuple[str, Json], ...] = ()
    raw: bytes | None = None
    """Sent unchanged instead of the rest: what a broken server would send."""
    hold: threading.Event | None = None
    """The server waits for this event, at most ten seconds: after the first piece of a streamed
    answer, before an answer in a single piece.
    """


class Request(Struct, frozen=True, kw_only=True):
    path: str
    body: Json


class Failure(Struct, frozen=True, kw_only=True):
    status: int
    error: str


Trouble = Literal["hangs", "crashes", "garbles"]
GARBAGE = b"\x00 no JSON at all", b'{"embeddings": [["?"]], "message": 7, "models": {}}'

Responder = Callable[[list[Json], list[Json]], Reply]
"""Makes the answer from the messages and the tools of a chat request."""


class OllamaStandIn(StandIn):
    """A server whose answers come from `script`, then `responder`, then are "Understood.".

    Chats that request JSON (`format`) are answered from `script_json`, then with "{}".
    """

    def __init__(self) -> None:
        self.models = ["gemma4:latest", "nomic-embed-text:latest"]
        self.capabilities = ["completion", "tools", "thinking"]
        self.requests: list[Request] = []
        self.responder: Responder | None = None
        self.trouble: Trouble | None = None
        """Trouble for every request as long as it is set."""
        self.context_tokens: int | None = None
        """Maximum tokens of a chat; longer ones are refused."""
        self.tokens_a_character = 0.25
        self._script: deque[Reply] = deque()
        self._json_script: deque[Reply] = deque()
        self._failures: deque[Failure] = deque()
        super().__init__(_Handler)

    def stop(self) -> None:
        """Refuse connections from now on, like a server that went down; may be repeated."""
        self.trouble = None
        super().stop()

    def script(self, *replies: Reply) -> None:
        self._script.extend(replies)

    def script_json(self, *answers: object) -> None:
        """Script answers to chats that request JSON: a Reply unchanged, anything else as JSON."""
        for answer in answers:
            reply = answer if isinstance(answer, Reply) else Reply(content=_json(answer))
            self._json_script.append(reply)

    def fail_next(self, *, status: int = 500, error: str = "the stand-in was told to fail") -> None:
        """Answer the next request, whatever its path, with this status."""
        self._failures.append(Failure(status=status, error=error))

    def bodies(self, path: str) -> list[Json]:
        """Return the bodies of the requests to this path so far, oldest first."""
        return [request.body for request in self.requests if request.path == path]

    def embedded(self) -> list[str]:
        """Return every text that was embedded as a document, oldest first."""
        texts = [text for body in self.bodies("/api/embed") for text in body["input"]]
        return [text for text in texts if text.startswith("search_document: ")]

    def materials(self) -> list[Json]:
        """Return the user messages of chats that requested JSON, decoded, oldest first."""
        messages_of_chats = [
            body["messages"] for body in self.bodies("/api/chat") if "format" in body
        ]
        return [
            msgspec.json.decode(messages[1]["content"], type=Json) for messages in messages_of_chats
        ]

    def next_failure(self) -> Failure | None:
        return self._failures.popleft() if self._failures else None

    def next_reply(self, messages: list[Json], tools: list[Json]) -> Reply:
        if self._script:
            return self._script.popleft()
        if self.responder is not None:
            return self.responder(messages, tools)
        return Reply(content="Understood.")

    def next_json(self) -> Reply:
        return self._json_script.popleft() if self._json_script else Reply(content="{}")

    def tokens_of(self, body: Json) -> int:
        """Estimate the tokens of a chat's messages and tools."""
        text = _json([body["messages"], body.get("tools", [])])
        return int(len(text) * self.tokens_a_character)

    def has_model(self, name: str) -> bool:
        """Whether the model exists; Ollama reads a name without a tag as `:latest`."""
        return (name if ":" in name else f"{name}:latest") in self.models


def _json(value: object) -> str:
    return msgspec.json.encode(value).decode()


def embed(text: str) -> list[float]:
    """Make a unit vector from hashed words and letter triples: shared words make texts similar."""
    vector = [0.0] * DIMENSIONS
    for word in re.findall(r"\w+", text.lower()):
        padded = f"<{word}>"
        for feature in {padded} | {padded[i : i + 3] for i in range(len(padded) - 2)}:
            digest = zlib.crc32(feature.encode())
            vector[digest % DIMENSIONS] += 1.0 if digest & 1 << 31 else -1.0
    length = math.hypot(*vector)
    return [x / length for x in vector] if length else [1.0] + [0.0] * (DIMENSIONS - 1)


class _Handler(Handler[OllamaStandIn]):
    """Speaks HTTP/1.0, so that no kept-alive connection outlives `stop`."""

    def answer(self, body: Json) -> None:
        stand_in = self.stand_in
        stand_in.requests.append(Request(path=self.path, body=body))
        route = {
            "/api/tags": self._tags,
            "/api/version": self._version,
            "/api/show": self._show,
            "/api/chat": self._chat,
            "/api/embed": self._embed,
        }.get(self.path)
        with suppress(ConnectionError):  # the client left before the answer was sent
            while stand_in.trouble == "hangs":
                time.sleep(0.01)
            if stand_in.trouble == "crashes":  # the connection ends without an answer
                return
            if stand_in.trouble == "garbles":
                self._send_head(200, "application/json")
                self.wfile.write(GARBAGE[len(stand_in.requests) % len(GARBAGE)])
            elif failure := stand_in.next_failure():
                self._send_json({"error": failure.error}, status=failure.status)
            elif route is None:
                self._send_json({"error": "404 page not found"}, status=404)
            elif "model" in body and not stand_in.has_model(body["model"]):
                self._send_json({"error": f"model '{body['model']}' not found"}, status=404)
            else:
                route(body)

    def _tags(self, _: Json) -> None:
        models = [{"name": name, "model": name} for name in self.stand_in.models]
        self._send_json({"models": models})

    def _version(self, _: Json) -> None:
        self._send_json({"version": "0.12.0"})

    def _show(self, _: Json) -> None:
        info = {"general.architecture": "gemma4", "gemma4.context_length": 131072}
        capabilities = self.stand_in.capabilities
        self._send_json({"model_info": info, "capabilities": capabilities})

    def _embed(self, body: Json) -> None:
        texts = [body["input"]] if isinstance(body["input"], str) else body["input"]
        self._send_json({"model": body["model"], "embeddings": [embed(text) for text in texts]})

    def _chat(self, body: Json) -> None:
        stand_in = self.stand_in
        tokens = stand_in.tokens_of(body)
        if stand_in.context_tokens is not None and tokens > stand_in.context_tokens:
            error = f"the prompt of {tokens} tokens exceeds the context length"
            self._send_json({"error": error}, status=400)
            return
        if "format" in body:
            reply = stand_in.next_json()
        else:
            reply = stand_in.next_reply(body["messages"], body.get("tools", []))
        if body.get("stream", True):
            self._stream(body, reply)
        else:
            self._send_whole(body, reply)

    def _send_whole(self, body: Json, reply: Reply) -> None:
        if reply.hold is not None:
            reply.hold.wait(timeout=10)
        message = {"role": "assistant", "content": reply.content, "thinking": reply.thinking}
        answer = {"model": body["model"], "message": message, "done": True, "done_reason": "stop"}
        self._send_head(200, "application/json")
        self.wfile.write(msgspec.json.encode(answer) if reply.raw is None else reply.raw)

    def _stream(self, body: Json, reply: Reply) -> None:
        self._send_head(200, "application/x-ndjson")
        if reply.raw is not None:
            self.wfile.write(reply.raw)
            return
        for number, part in enumerate(_parts(reply, self.stand_in.tokens_of(body))):
            if number == 1 and reply.hold is not None:
                reply.hold.wait(timeout=10)
            self.wfile.write(msgspec.json.encode({"model": body["model"], **part}) + b"\n")

    def _send_json(self, body: Json, *, status: int = 200) -> None:
        self._send_head(status, "application/json")
        self.wfile.write(msgspec.json.encode(body))

    def _send_head(self, status: int, content_type: str) -> None:
        self.send_response(status)
        self.send_header("Content-Type", content_type)
        self.end_headers()


def _parts(reply: Reply, prompt_tokens: int) -> Iterator[Json]:
    """Yield the lines of a streamed answer: one word each, ended by the line that says `done`."""
    messages: list[Json] = [
        {"content": "", "thinking": piece} for piece in re.findall(r"\s*\S+", reply.thinking)
    ]
    messages += [{"content": piece} for piece in re.findall(r"\s*\S+", reply.content)]
    if reply.tool_calls:
        calls = [{"function": {"name": n, "arguments": a}} for n, a in reply.tool_calls]
        messages.append({"content": "", "tool_calls": calls})
    for message in messages:
        yield {"message": {"role": "assistant", **message}, "done": False}
    yield {
        "message": {"role": "assistant", "content": ""},
        "done": True,
        "done_reason": "stop",
        "prompt_eval_count": prompt_tokens,
        "eval_count": len(messages),
    }
