"""The hooks read the payloads of each client, and answer in its format."""

import json
from pathlib import Path
from typing import Any

import msgspec
import pytest

from local2.hooks.clients import CLIENTS
from local2.hooks.clients.client import (
    Answered,
    Compacting,
    Event,
    Interjected,
    Prompted,
    SessionEnded,
    SessionStarted,
    TurnEnded,
)
from recorded_hooks import CLIENT_NAMES, first, payloads

EXPECTED_EVENTS = {
    "claude-code": [
        SessionStarted,
        Prompted,
        TurnEnded,
        Compacting,
        SessionStarted,
        Interjected,
        TurnEnded,
        SessionEnded,
    ],
    "codex": [SessionStarted, Prompted, TurnEnded, Compacting, SessionStarted, SessionEnded],
    "cursor": [SessionStarted, Prompted, Answered, Answered, TurnEnded, SessionEnded],
}


def read(client: str, payload: dict[str, Any]) -> Event | None:
    return CLIENTS[client].read(json.dumps(payload).encode())


@pytest.mark.parametrize("client", CLIENT_NAMES)
def test_all_payloads_of_a_session_are_read(client: str, tmp_path: Path) -> None:
    events = [event for one in payloads(client, tmp_path) if (event := read(client, one))]

    assert [type(event) for event in events] == EXPECTED_EVENTS[client]
    assert {event.project for event in events} == {str(tmp_path)}
    assert len({event.session for event in events}) == 1


@pytest.mark.parametrize("client", CLIENT_NAMES)
def test_every_registered_hook_is_read(client: str, tmp_path: Path) -> None:
    sent = {one["hook_event_name"] for one in payloads(client, tmp_path)}

    assert set(CLIENTS[client].events) == sent


@pytest.mark.parametrize(("client", "field"), [("claude-code", "prompt"), ("cursor", "prompt")])
def test_half_an_emoji_in_a_prompt_is_replaced_and_the_rest_is_read(
    client: str, field: str, tmp_path: Path
) -> None:
    payload = next(one for one in payloads(client, tmp_path) if field in one)
    event = read(client, {**payload, field: "cut \ud83d, whole \U0001f389"})

    assert isinstance(event, Prompted)
    assert event.text == "cut \ufffd, whole \U0001f389"


@pytest.mark.parametrize("client", ["claude-code", "codex"])
def test_the_start_of_a_compacted_session_is_recognised(client: str, tmp_path: Path) -> None:
    starts = [read(client, one) for one in payloads(client, tmp_path)]
    compacted = [event.compacted for event in starts if isinstance(event, SessionStarted)]

    assert compacted == [False, True]


@pytest.mark.parametrize("client", ["claude-code", "codex"])
def test_a_prompt_to_a_subagent_is_not_a_prompt_of_the_user(client: str, tmp_path: Path) -> None:
    prompt = first(client, tmp_path, "UserPromptSubmit")

    assert read(client, {**prompt, "agent_id": "a1"}) is None


def test_hooks_of_claude_code_do_nothing_if_cursor_runs_them(tmp_path: Path) -> None:
    prompt = first("claude-code", tmp_path, "UserPromptSubmit")

    assert read("claude-code", {**prompt, "cursor_version": "2.4.0"}) is None


@pytest.mark.parametrize("status", ["aborted", "error"])
def test_a_turn_that_cursor_did_not_complete_is_ignored(status: str, tmp_path: Path) -> None:
    assert read("cursor", {**first("cursor", tmp_path, "Stop"), "status": status}) is None


@pytest.mark.parametrize("client", CLIENT_NAMES)
def test_fields_that_a_later_version_adds_are_ignored(client: str, tmp_path: Path) -> None:
    for payload in payloads(client, tmp_path):
        assert read(client, {**payload, "added_later": {"a": 1}}) == read(client, payload)


@pytest.mark.parametrize(
    ("client", "event", "answer"),
    [
        (
            "claude-code",
            "UserPromptSubmit",
            {
                "hookSpecificOutput": {
                    "hookEventName": "UserPromptSubmit",
                    "additionalContext": "known",
                }
            },
        ),
        (
            "codex",
            "SessionStart",
            {"hookSpecificOutput": {"hookEventName": "SessionStart", "additionalContext": "known"}},
        ),
        ("cursor", "sessionStart", {"additional_context": "known"}),
    ],
)
def test_a_context_is_answered_in_the_format_of_the_client(
    client: str, event: str, answer: dict[str, Any]
) -> None:
    assert msgspec.to_builtins(CLIENTS[client].answer(event, "known")) == answer
