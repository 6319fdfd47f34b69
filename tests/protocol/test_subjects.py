"""No tool name puts a wildcard, a dot or a blank into a subject."""

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from local2.errors import BadRequestError
from local2.protocol import subjects


def test_a_tool_has_a_subject_for_requests_and_one_for_results() -> None:
    assert subjects.tool_request("save_topic") == "tool.request.save_topic"
    assert subjects.tool_result("save_topic") == "tool.result.save_topic"


@pytest.mark.parametrize(
    "name",
    [
        pytest.param("*", id="wildcard"),
        pytest.param(">", id="wildcard for the rest"),
        pytest.param("save.topic", id="two tokens"),
        pytest.param("save topic", id="blank"),
        pytest.param("save_topic\n", id="line break"),
        pytest.param("späť", id="not ASCII"),
        pytest.param("", id="empty"),
        pytest.param("a" * 65, id="too long"),
    ],
)
def test_a_name_that_is_not_a_subject_token_is_refused(name: str) -> None:
    with pytest.raises(BadRequestError, match="is not a tool name"):
        subjects.tool_request(name)


@pytest.mark.parametrize("name", ["get-weather", "getWeather", "2nd_opinion", "a" * 64])
def test_names_that_model_apis_accept_are_tool_names(name: str) -> None:
    assert subjects.tool_request(name) == f"tool.request.{name}"


@given(st.text())
def test_every_name_is_one_plain_token_or_refused(name: str) -> None:
    try:
        subject = subjects.tool_result(name)
    except BadRequestError:
        return
    assert re.fullmatch(r"tool\.result\.[A-Za-z0-9_-]+", subject)
