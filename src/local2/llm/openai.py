"""Models of an endpoint with OpenAI's API, for conversations and for structured answers.

Such endpoints differ in what they accept. A parameter that an endpoint refuses is omitted from then
on. If it refuses a JSON schema, any JSON object is requested instead, and after that plain text.
"""

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable, Iterable, Iterator, Sequence
from contextlib import aclosing, contextmanager
from functools import partial
from typing import Self, TypeVar

import httpx
import msgspec
import structlog

from local2.endpoint.address import (
    Endpoint,
    EndpointError,
    is_too_large,
    timeout_error,
    unreachable_error,
    unreadable_error,
)
from local2.endpoint.clients import AsyncEndpointClient
from local2.errors import ModelError, ModelRefusedError, PromptTooLargeError, abridged
from local2.llm.models import ChatChunk, ChatMessage, ToolDefinition
from local2.llm.openai_messages import (
    CallsInPieces,
    Completion,
    CompletionMessage,
    Tokens,
    pieces_of,
    strict_schema,
    to_chunk,
    to_openai,
    to_tools,
)
from local2.llm.structured import Answer, Ask, StructuredAnswers, schema_of
from local2.protocol.payloads import Json
from local2.telemetry import model_call

CHAT = "chat/completions"
PROBE_SECONDS = 2.0
"""Timeout in seconds for listing models; a start waits for it."""
SILENCE_SECONDS = 120.0
"""Maximum number of seconds without output from a model: a local one takes a minute to read a long
prompt."""
OPTIONAL = ("temperature", "stream_options")
"""Parameters that some endpoints or models refuse, and others need."""
FORMS = ("json_schema", "json_object", "text")
"""Forms of a structured answer, from the strictest to the loosest."""
FORM_ATTEMPTS = 2
"""Number of requests after which an answer in the wrong form is an error."""

R = TypeVar("R")

log = structlog.get_logger()


class _Listed(msgspec.Struct, frozen=True):
    id: str


class _List(msgspec.Struct, frozen=True):
    data: list[_Listed]


class OpenAIModel(StructuredAnswers):
    """A ChatModel and a CountingModel; create it with `open`."""

    provider = "openai"
    """The API of the endpoint, since the actual provider is unknown."""

    def __init__(self, client: AsyncEndpointClient, model: str, *, temperature: float) -> None:
        self.name = model
        self._client = client
        self._temperature = temperature
        self._refused: set[str] = set()
        self._form = 0
        """Index of the first of FORMS that was not refused."""

    @classmethod
    async def open(cls, model: str, *, temperature: float, endpoint: Endpoint) -> Self:
        """Create the model's client without sending anything: the endpoint may be down for now."""
        client = await AsyncEndpointClient.open(endpoint)
        return cls(client, model, temperature=temperature)

    async def list_models(self) -> list[str] | None:
        """The models that the endpoint lists, None if it lists none.

        Raises:
            ModelError: The endpoint is unreachable, or refuses the key.
        """
        try:
            answer = await self._client.get("models", within=PROBE_SECONDS)
            return [model.id for model in msgspec.json.decode(answer, type=_List).data]
        except EndpointError as error:
            if error.kind not in {"model", "refused"}:
                raise _model_error(error) from error
        except (msgspec.MsgspecError, RecursionError):
            pass
        return None

    async def is_available(self) -> bool:
        """Whether the endpoint lists the model, or accepts it without listing it.

        Raises:
            ModelError: The endpoint is unreachable, or refuses the key.
        """
        listed = await self.list_models()
        if listed is None or any(self.name in {name, name.rpartition("/")[2]} for name in listed):
            return True
        try:
            await self._request_one_word(PROBE_SECONDS)
        except EndpointError as error:
            if error.kind != "model":
                raise _model_error(error) from error
            return False
        return True

    async def try_out(self, *, within: float) -> None:
        """Request one word, since only that shows whether key and model are accepted.

        Raises:
            ModelError: They are refused, the endpoint is unreachable, or its answer is unreadable.
        """
        with self._as_model_errors():
            if (answer := await self._request_one_word(within)) is not None:
                msgspec.json.decode(answer, type=Completion)

    async def stream(
        self, messages: Sequence[ChatMessage], tools: Sequence[ToolDefinition]
    ) -> AsyncGenerator[ChatChunk, None]:
        body: Json = {
            "messages": [to_openai(message) for message in messages],
            "stream": True,
            "stream_options": {"include_usage": True},
            "temperature": self._temperature,
        }
        if offered := list(to_tools(tools)):
            body["tools"] = offered
        begin = partial(self._client.begin, CHAT, within=SILENCE_SECONDS)
        calls, ended = CallsInPieces(), ""
        with model_call("chat", self.name, self.provider) as used, self._as_model_errors():
            async with (
                aclosing(await self._send(begin, body)) as response,
                aclosing(pieces_of(response.aiter_bytes())) as pieces,
            ):
                while (piece := await self._next_piece(pieces)) is not None:
                    ended = ended or calls.add_piece(piece)
                    if piece.usage:
                        used(piece.usage.prompt_tokens, piece.usage.completion_tokens)
                    if chunk := to_chunk(piece):
                        yield chunk
            if not ended:
                shown = self._client.endpoint.shown
                raise ModelError(
                    f"{shown} broke off in the middle of an answer.", remedy="Ask again."
                )
            if ended == "length":
                log.warning("answer_cut_off", model=self.name)
            if whole := calls.assembled():
                yield ChatChunk(tool_calls=whole)

    def attempts(self, into: type[msgspec.Struct], within: float) -> Iterable[Ask]:
        async def ask(system: str, user: str) -> Answer:
            messages = [{"role": "system", "content": system}, {"role": "user", "content": user}]
            with self._as_model_errors():
                answer = await self._answer(into, messages, within)
            message = answer.choices[0].message if answer.choices else CompletionMessage()
            tokens = answer.usage or Tokens()
            return Answer(message.content or "", tokens.prompt_tokens, tokens.completion_tokens)

        return [ask] * FORM_ATTEMPTS

    async def close(self) -> None:
        await self._client.close()

    async def _request_one_word(self, within: float) -> bytes | None:
        """The raw answer, None if only a parameter is refused, not the key or the model."""
        body = {"model": self.name, "messages": [{"role": "user", "content": "Hi"}]}
        try:
            return await self._client.post(
                CHAT, {**body, "max_tokens": 1}, within=within, attempts=1
            )
        except EndpointError as error:
            if error.kind != "refused":
                raise
            return None

    async def _answer(
        self, into: type[msgspec.Struct], messages: list[Json], within: float
    ) -> Completion:
        """Request the strictest form that the endpoint has not refused."""
        form = FORMS[self._form]
        body: Json = {"messages": messages, "temperature": 0}
        if form == "json_object":
            body["response_format"] = {"type": form}
        elif form != "text":
            schema = strict_schema(schema_of(into))
            named = {"name": into.__name__.strip("_"), "strict": True, "schema": schema}
            body["response_format"] = {"type": form, form: named}
        try:
            answer = await self._send(partial(self._client.post, CHAT, within=within), body)
        except EndpointError as error:
            if error.kind != "refused" or is_too_large(error) or self._form == len(FORMS) - 1:
                raise
        else:
            return msgspec.json.decode(answer, type=Completion)
        self._form += 1
        log.info("answer_form_refused", model=self.name, instead=FORMS[self._form])
        return await self._answer(into, messages, within)

    async def _send(self, send: Callable[[Json], Awaitable[R]], body: Json) -> R:
        """Send a body without refused parameters; retry without those that are refused now."""
        while True:
            sent = {name: value for name, value in body.items() if name not in self._refused}
            try:
                return await send({"model": self.name, **sent})
            except EndpointError as error:
                named = [name for name in OPTIONAL if name in sent and name in error.reply]
                if error.kind != "refused" or not named:
                    raise
            self._refused.update(named)
            log.info("parameters_refused", model=self.name, parameters=named)

    async def _next_piece(self, pieces: AsyncGenerator[Completion, None]) -> Completion | None:
        """The next piece of an answer, None at the end; keep-alives do not count."""
        try:
            async with asyncio.timeout(SILENCE_SECONDS):
                piece = await anext(pieces, None)
        except TimeoutError as error:
            raise timeout_error(self._client.endpoint, SILENCE_SECONDS) from error
        if piece is not None and piece.error is not None:
            endpoint = self._client.endpoint
            problem = piece.error
            text = problem.get("message", problem) if isinstance(problem, dict) else problem
            reply = endpoint.without_key(abridged(text))
            message = f"{endpoint.shown} broke off with an error."
            raise EndpointError("failed", message, reply=reply, remedy="Ask again.")
        return piece

    @contextmanager
    def _as_model_errors(self) -> Iterator[None]:
        """Convert failures of the endpoint, and unreadable answers, to ModelError."""
        endpoint = self._client.endpoint
        try:
            yield
        except EndpointError as error:
            raise _model_error(error) from error
        except httpx.HTTPError as error:  # in the middle of an answer
            raise _model_error(unreachable_error(endpoint, error)) from error
        except (msgspec.MsgspecError, ValueError, RecursionError) as error:
            raise _model_error(unreadable_error(endpoint, error)) from error


def _model_error(error: EndpointError) -> ModelError:
    kind = ModelError
    if error.kind == "refused":
        kind = PromptTooLargeError if is_too_large(error) else ModelRefusedError
    failed = kind(error.message, remedy=error.remedy, logged=error.logged)
    failed.retry_after = error.retry_after
    return failed
