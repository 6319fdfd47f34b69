"""Models served by Ollama, for conversations and for structured answers.

This module alone converts the errors of the ollama package to those of local2.
"""

import asyncio
import re
from collections.abc import AsyncGenerator, Callable, Iterable, Iterator, Sequence
from contextlib import AsyncExitStack, aclosing, contextmanager
from functools import partial
from typing import Any, Literal, Self, cast
from uuid import uuid4

import httpx
import msgspec
import structlog
from ollama import AsyncClient, ChatResponse, Message, ResponseError, Tool

from local2.errors import (
    ConfigError,
    ModelError,
    ModelRefusedError,
    PromptTooLargeError,
    abridged,
    without_credentials,
)
from local2.llm.models import (
    ChatChunk,
    ChatMessage,
    ToolCall,
    ToolDefinition,
    Usage,
    read_arguments,
)
from local2.llm.structured import Answer, Ask, StructuredAnswers, schema_of
from local2.telemetry import model_call

PROBE_SECONDS = 2.0
"""Timeout in seconds for connecting, and for a question about models; a start waits for it."""
SILENCE_SECONDS = 300.0
"""Maximum number of seconds without output from a model: loading a large one from a slow disk takes
minutes."""

Capability = Literal["tools", "completion"]
_LACKING: dict[Capability, str] = {
    "tools": "cannot call tools, so it would reach no memory",
    "completion": "does not answer questions",
}

_TOO_LARGE = re.compile(r"context (length|size|window)|too (large|long)", re.IGNORECASE)
"""Error texts of servers for a prompt that is too large, for which there is no error code."""

log = structlog.get_logger()


class OllamaModel(StructuredAnswers):
    """A ChatModel and a CountingModel; create it with `open`, which checks its capabilities."""

    provider = "ollama"

    def __init__(
        self, client: AsyncClient, model: str, *, url: str, options: dict[str, Any], thinks: bool
    ) -> None:
        self.name = model
        self._client = client
        self._url = without_credentials(url)
        self._options = options
        self._thinks = thinks

    @classmethod
    async def open(
        cls,
        model: str,
        *,
        temperature: float,
        context_size: int,
        url: str,
        needs: Capability = "tools",
    ) -> Self:
        """Find the model on the server, within two seconds.

        Args:
            model: Name as shown by `ollama list`; without a tag, `:latest` is used.
            temperature: 0 for the likeliest answer every time, 1 and more for varied ones.
            context_size: Number of tokens in the model's context, including its answer.
            url: Address of the server, such as http://127.0.0.1:11434.
            needs: The capability that the model must have.

        Raises:
            ConfigError: `url` is not a URL.
            ModelError: No server answers, it lacks the model, or the model lacks what it needs.
        """
        async with AsyncExitStack() as on_failure:
            client = await _connect(url)
            on_failure.push_async_callback(client.close)
            with _as_model_errors(model, url):
                async with asyncio.timeout(PROBE_SECONDS):
                    capabilities = (await client.show(model)).capabilities or []
            if needs not in capabilities:
                raise ModelError(
                    f"The model {model} {_LACKING[needs]}.",
                    remedy=f"Choose a model for which `ollama show` lists the capability {needs}.",
                )
            on_failure.pop_all()
        options = {"temperature": temperature, "num_ctx": context_size}
        return cls(client, model, url=url, options=options, thinks="thinking" in capabilities)

    async def stream(
        self, messages: Sequence[ChatMessage], tools: Sequence[ToolDefinition]
    ) -> AsyncGenerator[ChatChunk, None]:
        their_messages = [_to_ollama(message) for message in messages]
        their_tools = []
        for tool in tools:
            declared = {"type": "function", "function": msgspec.to_builtins(tool)}
            try:
                their_tools.append(Tool.model_validate(declared))
            except ValueError as error:  # anybody can announce a tool
                log.warning("tool_not_offered", tool=tool.name, reason=str(error))
        done_reason = None
        with (
            model_call("chat", self.name, self.provider) as used,
            _as_model_errors(self.name, self._url),
        ):
            parts = await self._client.chat(
                self.name,
                messages=their_messages,
                tools=their_tools,
                stream=True,
                think=self._thinks or None,
                options=self._options,
            )
            # A generator, despite its annotation: closing it disconnects, which stops the model.
            async with aclosing(cast(AsyncGenerator[ChatResponse, None], parts)):
                async for part in parts:
                    done_reason = part.done_reason if part.done else None
                    if part.done:
                        used(part.prompt_eval_count or 0, part.eval_count or 0)
                    usage: Usage | None = None
                    if part.done and part.prompt_eval_count:  # it does not count a cached prompt
                        usage = Usage(
                            prompt_tokens=part.prompt_eval_count,
                            answer_tokens=part.eval_count or 0,
                        )
                    message = part.message
                    chunk = ChatChunk(
                        content=message.content or "",
                        thinking=message.thinking or "",
                        tool_calls=tuple(
                            # Ollama matches results with calls by the tool's name and order; we
                            # need an id.
                            ToolCall(
                                id=uuid4().hex,
                                name=call.function.name,
                                arguments=dict(call.function.arguments),
                            )
                            for call in message.tool_calls or ()
                        ),
                        usage=usage,
                    )
                    if chunk != ChatChunk():
                        yield chunk
            if done_reason is None:
                raise ModelError(f"Ollama at {self._url} broke off in the middle of an answer.")
            if done_reason == "length":
                log.warning(
                    "answer_cut_off", model=self.name, context_size=self._options["num_ctx"]
                )

    def attempts(self, into: type[msgspec.Struct], within: float) -> Iterable[Ask]:  # noqa: ARG002
        async def ask(system: str, user: str, *, think: bool | None) -> Answer:
            with _as_model_errors(self.name, self._url):
                answer = await self._client.chat(
                    self.name,
                    messages=[
                        Message(role="system", content=system),
                        Message(role="user", content=user),
                    ],
                    format=schema_of(into),
                    think=think,
                    options={**self._options, "temperature": 0},
                )
            # A cached prompt is not counted by all versions.
            counts = answer.prompt_eval_count or 0, answer.eval_count or 0
            return Answer(answer.message.content or "", *counts)

        # Thinking is slower, but without it Ollama ignores the schema for some models
        # (ollama/ollama#15260), and returns nothing for others (#17823).
        return [partial(ask, think=think) for think in ((False, True) if self._thinks else (None,))]

    async def close(self) -> None:
        await self._client.close()  # type: ignore[no-untyped-call]


class _Client(AsyncClient):
    """Also reads calls whose arguments are null or JSON as text, which the package refuses."""

    async def _request(self, cls: Callable[..., Any], *args: Any, **options: Any) -> Any:
        def read(**part: Any) -> Any:
            match part:
                case {"message": {"tool_calls": [*calls]}}:
                    for call in calls:
                        match call:
                            case {"function": {"arguments": None | str() as text} as function}:
                                function["arguments"] = read_arguments(text)
            return cls(**part)

        return await super()._request(cast(Any, read), *args, **options)


async def installed_models(url: str) -> list[str]:
    """The names of the server's models, tags included.

    Raises:
        ConfigError: `url` is not a URL.
        ModelError: No server answers within two seconds.
    """
    client = await _connect(url)
    try:
        with _as_model_errors("", url):
            async with asyncio.timeout(PROBE_SECONDS):
                return [entry.model for entry in (await client.list()).models if entry.model]
    finally:
        await client.close()  # type: ignore[no-untyped-call]


async def _connect(url: str) -> AsyncClient:
    timeout = httpx.Timeout(SILENCE_SECONDS, connect=PROBE_SECONDS)
    try:
        # In a thread, because creating a client reads the system's certificates.
        return await asyncio.to_thread(_Client, host=url, timeout=timeout)
    except ValueError as error:
        raise ConfigError(
            f"The address of Ollama, {without_credentials(url)!r}, is not a URL.",
            remedy="Set ollama_url in config/generator.yaml or LOCAL2_GENERATOR__OLLAMA_URL.",
        ) from error


def _to_ollama(message: ChatMessage) -> Message:
    calls = [
        Message.ToolCall(function=Message.ToolCall.Function(name=c.name, arguments=c.arguments))
        for c in message.tool_calls
    ]
    return Message(
        role=message.role,
        content=message.content,
        thinking=message.thinking or None,
        tool_calls=calls or None,
        tool_name=message.tool_name,
    )


@contextmanager
def _as_model_errors(model: str, url: str) -> Iterator[None]:
    """Convert all errors of the ollama package to ModelError."""
    url = without_credentials(url)
    try:
        yield
    except ResponseError as error:
        status = error.status_code
        refused = f"{model} refused the request ({status}): {abridged(error.error)}"
        if status == httpx.codes.NOT_FOUND:
            raise ModelError(
                f"Ollama at {url} does not have the model {model}.",
                remedy=f"Run `ollama pull {model}`, or set LOCAL2_GENERATOR__CHAT=rules.",
            ) from error
        if status == httpx.codes.REQUEST_ENTITY_TOO_LARGE or _TOO_LARGE.search(error.error):
            raise PromptTooLargeError(refused) from error
        if httpx.codes.is_client_error(status):
            raise ModelRefusedError(refused) from error
        raise ModelError(f"Ollama at {url} failed: {abridged(error.error)}") from error
    except (OSError, httpx.TransportError) as error:
        raise ModelError(
            f"No answer from Ollama at {url} ({type(error).__name__}).",
            remedy="Start it with `ollama serve`, or set LOCAL2_GENERATOR__CHAT=rules.",
        ) from error
    except (ValueError, AttributeError, RecursionError) as error:
        # Not JSON, or of another form. The reply itself may contain memories, so it is not logged.
        reason = type(error).__name__
        raise ModelError(f"Ollama at {url} sent a reply that cannot be read ({reason}).") from error
