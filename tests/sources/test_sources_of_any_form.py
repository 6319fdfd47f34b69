"""Whatever an export has in whatever place, it is read or left out by name, and nothing fails."""

import json
from collections.abc import Callable, Iterable
from contextlib import suppress
from pathlib import Path
from typing import Any

import msgspec
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from local2.errors import Local2Error
from local2.protocol.envelope import encode
from local2.sources.items import Conversation
from local2.sources.opening import Format, opened
from sources_made_up import chatgpt_chat, chatgpt_message

EXPORTS: dict[Format, list[Any]] = {
    "chatgpt": [
        chatgpt_chat(
            "c1",
            [
                chatgpt_message("m1", "Hello."),
                chatgpt_message("m2", "x()", author={"role": "assistant"}, recipient="python"),
                chatgpt_message("m3", "7", author={"role": "tool", "name": "python"}),
            ],
        )
    ],
    "claude": [
        {
            "uuid": "c1",
            "name": "Talk",
            "created_at": "2023-11-14T22:13:20Z",
            "current_leaf_message_uuid": "m2",
            "chat_messages": [
                {
                    "uuid": "m2",
                    "sender": "assistant",
                    "text": "",
                    "created_at": "2023-11-14T22:13:20Z",
                    "parent_message_uuid": "m1",
                    "attachments": [{"file_name": "a", "extracted_content": "b"}],
                    "files": [{"file_name": "c"}],
                    "content": [
                        {"type": "text", "text": "Hello."},
                        {"type": "tool_use", "id": "t1", "name": "f", "input": {"x": 1}},
                        {"type": "tool_result", "tool_use_id": "t1", "content": [{"text": "y"}]},
                    ],
                }
            ],
        }
    ],
    "mem0": [
        {
            "id": "1",
            "memory": "Grows moss.",
            "user_id": "ada",
            "metadata": {"a": 1},
            "categories": ["b"],
            "created_at": "2023-11-14T22:13:20Z",
            "expiration_date": None,
        }
    ],
    "hindsight": [
        {
            "id": "d1",
            "original_text": "We talked.",
            "facts": [{"text": "A", "fact_type": "world", "mentioned_at": "2023-11-14T22:13:20Z"}],
        }
    ],
    "messages": [{"role": "user", "content": "yes", "session_id": "s1", "timestamp": 1}],
}
ANY_JSON = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**62), 2**62)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text()
    | st.sampled_from(["\ud83d", "\0", "0001-01-01T00:00:00+14:00", "9" * 400, "tool", "all"]),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=6,
)


def places(value: Any, path: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    """All places in a value, as the keys that lead there."""
    inner: Iterable[tuple[Any, Any]] = enumerate(value) if isinstance(value, list) else ()
    inner = value.items() if isinstance(value, dict) else inner
    return [path, *(place for key, part in inner for place in places(part, (*path, key)))]


def changed(value: Any, place: tuple[Any, ...], change: Callable[[], Any]) -> Any:
    """The value with another one at a place."""
    if not place:
        return change()
    key, *rest = place
    copy = dict(value) if isinstance(value, dict) else list(value)
    copy[key] = changed(value[key], tuple(rest), change)
    return copy


@pytest.mark.parametrize("format_", EXPORTS)
@settings(
    max_examples=100, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(data=st.data())
def test_an_export_with_anything_in_any_place_is_read(
    tmp_path: Path, format_: Format, data: st.DataObject
) -> None:
    export: Any = EXPORTS[format_]
    for place in data.draw(st.lists(st.sampled_from(places(export)), min_size=1, max_size=3)):
        if place in places(export):
            export = changed(export, place, lambda: data.draw(ANY_JSON))
    (tmp_path / "export.json").write_text(json.dumps(export))

    with opened(tmp_path / "export.json", format_) as source:
        items = list(source.items())

    for item in items:
        encode(item)
        if isinstance(item, Conversation):
            assert item.messages


@settings(deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.data())
def test_a_file_that_was_damaged_is_read_or_refused(tmp_path: Path, data: st.DataObject) -> None:
    format_ = data.draw(st.sampled_from(sorted(EXPORTS)))
    content = bytearray(msgspec.json.encode(EXPORTS[format_]))
    for _ in range(data.draw(st.integers(1, 4))):
        content[data.draw(st.integers(0, len(content) - 1))] = data.draw(st.integers(0, 255))
    (tmp_path / "export.json").write_bytes(content)

    with suppress(Local2Error), opened(tmp_path / "export.json") as source:
        list(source.items())
