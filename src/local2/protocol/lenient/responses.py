"""Read the answer in a whole response of a chat model's API, or in the chunks of a streamed one.

These are OpenAI's chat completions and Responses API, Gemini, Anthropic, Ollama, Cohere, Bedrock,
Hugging Face, and the messages that LangChain dumps. The whole state of an agent is read as its last
turn.
"""

from collections.abc import Iterable
from typing import Any, Final

from local2.protocol.lenient.calls import ARGS
from local2.protocol.lenient.messages import ROLES, Blocks, is_thought
from local2.protocol.lenient.values import (
    content_of,
    first_of,
    text_of,
    text_of_part,
    value_of,
)
from local2.protocol.payloads import Json

THINKING: Final = ("reasoning_content", "reasoning", "thinking")
"""Fields of a message in which servers of OpenAI's and Ollama's API give a model's thoughts."""
CHUNK: Final = "AIMessageChunk"
FINISHED: Final = ("response.completed", "response.incomplete", "response.failed")


def blocks_of_answer(value: Any) -> Blocks | None:
    """Find the blocks of the answer in a response, in a message, in chunks or in a conversation."""
    if (turn := _last_turn(_conversation(value))) is not None:
        return turn
    if isinstance(value, dict):
        message = _response(value)
        is_message = "role" in value or value.get("type") in ("ai", CHUNK) or "tool_calls" in value
        if message is None and is_message:
            message = value
        if message is None:
            return None
        match content_of(message):  # content in no form of an API is JSON of an agent
            case None:
                known = any(message.get(key) for key in ("tool_calls", "function_call", "refusal"))
            case list(content):
                known = all(isinstance(part, str | dict) for part in content)
            case content:
                known = isinstance(content, str)
        return _blocks(message) if known else None
    if not isinstance(value, list) or not all(isinstance(part, dict) for part in value):
        return None
    finished = [  # an event with the whole response that was streamed before it
        part["response"] for part in value if part.get("type") in FINISHED and "response" in part
    ]
    if finished:
        return blocks_of_answer(finished[-1])
    if _are_output(value):
        return _blocks({"content": value})
    chunks = [chunk for part in value if (chunk := _chunk(part)) is not None]
    if len(chunks) == len(value) and any(chunks):
        return _joined(map(_blocks, chunks))
    messages = [message for part in value if (message := _response(part)) is not None]
    if not messages or len(messages) < len(value):
        return None
    return _together(map(_blocks, messages))


def undumped(value: Any) -> Any:
    """The response that a text has, as `dumps` of LangChain writes it; any other value as it is.

    A conversation in other forms than LangChain's may be what was asked for, such as an example.
    """
    if not isinstance(value, str) or not value.lstrip().startswith(("{", "[")):
        return value
    read = value_of(value)
    if conversation := _conversation(read):
        is_response = not any("role" in message for message in conversation)
    else:
        is_response = isinstance(read, dict) and _response(read) is not None
    return read if is_response and blocks_of_answer(read) else value


def answers_in(value: Any) -> int:
    """Count the alternative answers in a response."""
    alternatives = first_of(value, ("choices", "candidates")) if isinstance(value, dict) else None
    return len(alternatives) if isinstance(alternatives, list) else 1


def _conversation(value: Any) -> list[Json]:
    """The messages of a whole conversation, or of a state with one, if each has a known role."""
    messages = value.get("messages") if isinstance(value, dict) else value
    if not isinstance(messages, list):
        return []
    is_known = all(isinstance(message, dict) and _role(message) for message in messages)
    return messages if is_known else []


def _last_turn(conversation: list[Json]) -> Blocks | None:
    """What answers the last question; None if no answer stands at the end, or no question before.

    Earlier turns were published before. A user's message with results is no question: Anthropic's.
    """
    said = list[Blocks]()
    for message in reversed(conversation):
        role = _role(message)
        blocks = _blocks(_inner(message))
        if role == "user" and not blocks.results:
            return _together(reversed(said))._replace(text=said[0].text) if said else None
        if role != "assistant" and not said:
            return None
        if role == "tool":
            id_ = _inner(message).get("tool_call_id")
            result = {"tool_call_id": id_, "content": text_of(blocks.text)}
            blocks = Blocks(text=[], parts=[], calls=[], results=[result])
        said.append(blocks)
    return None


def _role(message: Json) -> str | None:
    """The role of a message in the form of any API, or of LangChain; None if it is none."""
    match message:
        case {"lc": int(), "id": [*_, str(role)], "kwargs": {"content": _}}:
            pass
        case (
            {"role": str(role)} | {"type": str(role), "content": _} | {"type": str(role), "data": _}
        ):
            pass
        case _:
            return None
    return ROLES.get(role.removesuffix("Chunk").removesuffix("Message").lower())


def _inner(message: Json) -> Json:
    match message:
        case {"lc": int(), "kwargs": dict(inner)} | {"type": str(), "data": dict(inner)}:
            return inner
    return message


def _response(value: Any) -> Json | None:
    """Find the message of a response in the form of any API."""
    message: Json
    match value:
        case {"choices": [{"message": dict(message)}, *_]}:
            return message
        case {"choices": [{"text": str(text)}, *_]}:
            return {"content": text}
        case {"candidates": [{"content": dict(message)}, *_]}:
            return message
        case {"output": list(output)} if _are_output(output):
            return {"content": output}
        case {"generations": [[{"message": dict(message)}, *_], *_]}:
            return _response(message) or message
        case {"generations": [[{"text": str(text)}, *_], *_]}:
            return {"content": text}
        case {"lc": int(), "kwargs": {"message": dict(message)}}:  # a dumped generation
            return _response(message) or message
        case {"lc": int(), "kwargs": dict(message)} if "content" in message:
            return message
        case {"type": "ai" | "AIMessageChunk", "data": dict(message)} if "content" in message:
            return message
        case {"message": dict(message), "done": bool()} if "role" in message:  # Ollama
            return message
        case {"response": str(text), "done": bool()}:
            return {"content": text}
        case {"message": dict(message), "finish_reason": str()} if "role" in message:  # Cohere
            return message
        case {"output": {"message": dict(message)}}:  # Bedrock
            return message
        case {"generated_text": str(text)}:  # Hugging Face
            return {"content": text}
    return None


def _are_output(items: list[Any]) -> bool:
    """Tell whether these are the items of an `output` of OpenAI's Responses API."""
    return (
        bool(items)
        and all(isinstance(item, dict) and isinstance(item.get("type"), str) for item in items)
        and any(
            (item["type"] == "message" and isinstance(item.get("content"), list))
            or (item["type"].endswith("_call") and "id" in item)
            for item in items
        )
    )


def _chunk(part: Json) -> Json | None:
    """What a chunk adds to its message, `{}` for nothing; None if it is not a chunk."""
    message: Json
    match part:
        case {"choices": []}:
            return {}
        case {"choices": [{"index": int(index), "delta": _}, *_]} if index > 0:
            return {}
        case {"choices": [{"delta": dict(delta)}, *_]}:
            return delta
        case {"candidates": [{"content": dict(message)}, *_]}:
            return message
        case {"candidates": [dict(), *_]} | {"usageMetadata": dict()}:
            return {}
        case {"message": dict(message), "done": bool()} if "role" in message:
            return message
        case {"response": str(text), "done": bool()}:
            return {"content": text}
        case {"lc": int(), "id": [*_, "AIMessageChunk"], "kwargs": dict(message)}:
            return message
        case {"type": "AIMessageChunk", "data": dict(message)}:
            return message
        case {"type": "AIMessageChunk", "content": _}:
            return part
        # Events of OpenAI's Responses API, and of Anthropic's API.
        case {"type": "response.output_text.delta" | "response.refusal.delta", "delta": str(text)}:
            return {"content": text}
        case {"type": str(kind), "delta": str(text)} if kind.startswith("response.reasoning"):
            return {"thinking": text}
        case {"type": "response.output_item.done", "item": dict(item)}:
            return {"content": [item]} if str(item.get("type")).endswith("_call") else {}
        case {"type": "content_block_start", "index": index, "content_block": dict(block)}:
            return {"content": [{**block, "index": index}]}
        case {"type": "content_block_delta", "index": index, "delta": dict(delta)}:
            if delta.get("type") == "input_json_delta":
                return {"tool_calls": [{"index": index, "input": delta.get("partial_json")}]}
            return {"content": delta.get("text") or "", "thinking": delta.get("thinking")}
        case {"type": "ping"}:
            return {}
        case {"type": str(kind)} if kind.startswith(("response.", "message_", "content_block_")):
            return {}
    return None


def _blocks(message: Json) -> Blocks:
    """Split a message into blocks, with the thoughts and calls from its other fields."""
    parts = [part for item in _listed(content_of(message)) for part in _items(item)]
    items = [part for part in parts if isinstance(part, dict) and _is_call(part)]
    blocks = Blocks.of([part for part in parts if part not in items])
    dumped = message.get("additional_kwargs")  # by LangChain
    fields = {**dumped, **message} if isinstance(dumped, dict) else message
    thoughts = text_of(first_of(fields, THINKING))
    calls = [
        *(
            {
                "name": item["type"].removesuffix("_call"),
                **item,
                "id": first_of(item, ("call_id", "id")),
            }
            for item in items
        ),
        *_listed(first_of(message, ("tool_call_chunks", "tool_calls", "function_call"))),
    ]
    return blocks._replace(
        text=blocks.text or _listed(message.get("refusal")),
        parts=[*([{"type": "thinking", "thinking": thoughts}] if thoughts else ()), *blocks.parts],
        calls=[*blocks.calls, *calls],
    )


def _listed(value: Any) -> list[Any]:
    if value is None:
        return []
    return value if isinstance(value, list) else [value]


def _items(part: Any) -> list[Any]:
    """Take apart an item of a Responses API's output; any other part stays as it is."""
    match part:
        case {"type": "message", "content": list(content)}:
            return content
        case {"type": "reasoning"}:
            thought = text_of(first_of(part, ("summary", "content", "text")))
            return [{"type": "thinking", "thinking": thought}] if thought else []
    return [part]


def _is_call(part: Json) -> bool:
    kind = part.get("type")
    return isinstance(kind, str) and (kind.endswith("_call") or kind == "function_call_output")


def _together(messages: Iterable[Blocks]) -> Blocks:
    read = list(messages)
    return Blocks(
        text=[block for blocks in read for block in blocks.text],
        parts=[block for blocks in read for block in blocks.parts],
        calls=[call for blocks in read for call in blocks.calls],
        results=[result for blocks in read for result in blocks.results],
    )


def _joined(chunks: Iterable[Blocks]) -> Blocks:
    """Join the blocks of a message whose texts and calls were streamed in pieces."""
    every = _together(chunks)
    calls: dict[Any, Json] = {}
    for call in every.calls:
        index = call.get("index") if isinstance(call, dict) else None
        key = ("whole", len(calls)) if index is None else index
        calls[key] = _completed(calls[key], call) if key in calls else call
    thoughts = "".join(text_of_part(block) for block in every.parts if is_thought(block))
    return Blocks(
        text=["".join(map(text_of_part, every.text))],
        parts=[{"type": "thinking", "thinking": thoughts}] if thoughts else [],
        calls=list(calls.values()),
        results=every.results,
    )


def _completed(call: Json, piece: Json) -> Json:
    """Add to a call the piece that follows: arguments are JSON text in several pieces."""
    completed = dict(call)
    for key, value in piece.items():
        before = call.get(key)
        if isinstance(before, dict) and before and isinstance(value, dict):
            completed[key] = _completed(before, value)
        elif key in ARGS and isinstance(before, str) and isinstance(value, str):
            completed[key] = before + value
        elif before in (None, "", {}):
            completed[key] = value
    return completed
