"""Content in blocks, as the APIs of Anthropic and Gemini have it: text among calls and results."""

from typing import Any, NamedTuple, Self

from local.protocol.payloads import Json

CALLS = ("functionCall", "function_call")
RESULTS = ("functionResponse", "function_response")
THOUGHTS = frozenset({"thinking", "redacted_thinking", "reasoning"})


class Blocks(NamedTuple):
    """What a content consists of. `said` leaves out what was only thought."""

    said: Any
    besides: list[Any]
    """Everything but calls and results, if something of it is more than text."""
    calls: list[Json]
    results: list[Json]

    @classmethod
    def of(cls, content: Any) -> Self:
        """Take a content apart; one that is no list of blocks is all said."""
        if not isinstance(content, list) or not all(isinstance(b, str | dict) for b in content):
            return cls(content, [], [], [])
        calls, results, rest = [], [], []
        for block in content:
            if call := _in(block, "tool_use", CALLS):
                calls.append(call)
            if result := _in(block, "tool_result", RESULTS):
                results.append(result)
            if not (call or result):
                rest.append(block)
        return cls(
            said=[block for block in rest if not _is_thought(block)],
            besides=[] if all(map(_is_text, rest)) else rest,
            calls=calls,
            results=results,
        )


def _in(block: str | Json, kind: str, names: tuple[str, ...]) -> Json | None:
    """The call or the result that a block is."""
    if isinstance(block, str):
        return None
    if block.get("type") == kind:
        return block
    return next((block[name] for name in names if isinstance(block.get(name), dict)), None)


def _is_thought(block: str | Json) -> bool:
    return isinstance(block, dict) and (
        str(block.get("type")) in THOUGHTS or block.get("thought") is True
    )


def _is_text(block: str | Json) -> bool:
    return isinstance(block, str) or block.keys() <= {"type", "text"}
