"""Admission refuses requests that are too large, too deeply nested or too frequent."""

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from calling import caller_named
from local2.admission import Admission, is_nested_deeper
from local2.bus.connection import Connection
from local2.bus.tool_host import ToolHost
from local2.client.tools import call_tool
from local2.errors import BadRequestError, OverloadedError, TooLargeError
from local2.protocol import subjects
from local2.protocol.envelope import decode, encode, seal
from local2.protocol.lenient.tools import read_result
from local2.protocol.payloads import RETRY_AFTER, ToolRequest, ToolResult
from local2.settings import LimitSettings
from note_tool import Notes

ADA, BOB, EVE = ("acme", "ada"), ("acme", "bob"), ("other", "eve")
DATA = b"{}"


class Clock:
    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.now = 100.0
        monkeypatch.setattr("local2.admission.time.monotonic", lambda: self.now)


def test_a_request_with_too_many_bytes_is_refused() -> None:
    admission = Admission(LimitSettings(request_bytes=10))

    with admission.admitted(ADA, b"x" * 10):
        pass
    with pytest.raises(TooLargeError, match="11 bytes; 10"):
        admission.admitted(ADA, b"x" * 11)


def test_a_request_that_is_nested_too_deeply_is_refused() -> None:
    admission = Admission(LimitSettings(nesting=8))

    with admission.admitted(ADA, b"[" * 8 + b"]" * 8):
        pass
    with pytest.raises(BadRequestError, match="more than 8 deep"):
        admission.admitted(ADA, b'{"a":' * 9 + b"1" + b"}" * 9)


TEXT = st.text('a\\"[]{}')
JSON = st.recursive(
    TEXT | st.integers(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(TEXT, inner, max_size=3),
)


@given(value=JSON, max_depth=st.integers(0, 5))
def test_nesting_is_measured_as_in_the_parsed_json(value: object, max_depth: int) -> None:
    def depth(of: object) -> int:
        if isinstance(of, dict):
            of = list(of.values())
        return 1 + max(map(depth, of), default=0) if isinstance(of, list) else 0

    assert is_nested_deeper(msgspec.json.encode(value), max_depth) == (depth(value) > max_depth)


def test_a_request_over_the_rate_is_refused_with_the_time_to_retry(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    clock = Clock(monkeypatch)
    admission = Admission(LimitSettings(user_rate=4, user_burst=2))
    for _ in range(2):
        admission.admitted(ADA, DATA)
    with pytest.raises(OverloadedError, match="4 requests per second") as refused:
        admission.admitted(ADA, DATA)
    admission.admitted(BOB, DATA)

    assert refused.value.retry_after == pytest.approx(0.25)
    clock.now += 0.25
    admission.admitted(ADA, DATA)
    with pytest.raises(OverloadedError):
        admission.admitted(ADA, DATA)


def test_the_users_of_a_tenant_share_its_rate_and_other_tenants_have_their_own(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    Clock(monkeypatch)
    admission = Admission(LimitSettings(tenant_rate=1, tenant_burst=2))
    admission.admitted(ADA, DATA)
    admission.admitted(BOB, DATA)

    with pytest.raises(OverloadedError):
        admission.admitted(ADA, DATA)
    admission.admitted(EVE, DATA)


def test_without_a_rate_every_request_is_admitted(monkeypatch: pytest.MonkeyPatch) -> None:
    Clock(monkeypatch)
    admission = Admission(LimitSettings(tenant_rate=0, user_rate=0, tenant_burst=1, user_burst=1))

    for _ in range(10):
        admission.admitted(ADA, DATA)


async def test_a_refusal_on_the_bus_carries_the_time_to_retry(
    bus: Connection, notes: Notes
) -> None:
    limits = LimitSettings(user_rate=0.5, user_burst=1)
    caller = caller_named("ada")
    async with ToolHost(bus, notes.tool(), admission=Admission(limits)):
        first = await call_tool(bus, "note", {"text": "one"}, caller=caller)
        second = await call_tool(bus, "note", {"text": "two"}, caller=caller)
        request = seal(ToolRequest(args={"text": "three"}), type="request", source="a", user="ada")
        plain = await bus.request(subjects.tool_request("note"), encode(request))

    assert first.ok
    assert second.error is not None
    assert second.error.code == "overloaded"
    assert second.error.retry_after is not None
    assert 0 < second.error.retry_after <= 2
    assert f"Try again in {second.error.retry_after:g} s" in second.content
    assert [text for _, text in notes.noted] == ["one"]
    assert plain.headers is not None
    assert plain.headers[RETRY_AFTER] in {"1", "2"}
    assert decode(plain.data, ToolResult).payload.error is not None


def test_the_time_to_retry_is_read_from_other_teams_tools_too() -> None:
    answer = b'{"ok": false, "error": {"code": "overloaded", "message": "Busy.", "retry_after": 3}}'

    error = read_result(answer).payload.error

    assert error is not None
    assert (error.code, error.retry_after) == ("overloaded", 3.0)
