"""What services refuse, and what they then say."""

from typing import Any

import pytest
from msgspec import Raw

from local2.errors import BadRequestError
from local2.protocol.envelope import decode
from local2.protocol.services import (
    BROWSE,
    BROWSE_ALL,
    EXPLAIN,
    GET_ITEMS,
    LIST_NAMESPACES,
    SERVICES,
    TASKS,
    ServiceDeclaration,
)
from local2.protocol.tool import with_suggestion

READING = [service for service in SERVICES if service.request is not Raw]


def refusal(service: ServiceDeclaration[Any, Any], payload: bytes) -> BadRequestError:
    with pytest.raises(BadRequestError) as caught:
        decode(b'{"payload": %b}' % payload, service.request)
    return with_suggestion(caught.value, service.request)


@pytest.mark.parametrize("service", READING, ids=lambda service: service.subject)
def test_every_service_refuses_a_field_that_it_does_not_know(
    service: ServiceDeclaration[Any, Any],
) -> None:
    assert "unknown field `typo`" in refusal(service, b'{"typo": 1}').message


@pytest.mark.parametrize(
    ("payload", "place"),
    [
        pytest.param(b'{"recall": 7}', "at `recall`.", id="a field"),
        pytest.param(b'{"recall": {"query": 7}}', "at `recall.query`.", id="in a part"),
        pytest.param(b"7", "at `payload`.", id="the payload"),
    ],
)
def test_the_refusal_names_a_field_as_its_sender_did(payload: bytes, place: str) -> None:
    assert refusal(EXPLAIN, payload).message.endswith(place)


@pytest.mark.parametrize(
    ("service", "payload", "remedy"),
    [
        pytest.param(
            TASKS,
            b'{"action": "discard", "kinds": ["extract"]}',
            "Did you mean kind? One of: action, kind, ids.",
            id="a condition, without which all tasks would be discarded",
        ),
        pytest.param(
            EXPLAIN, b'{"recall": {"query": "x", "topk": 3}}', "Did you mean top_k?", id="in a part"
        ),
        pytest.param(BROWSE_ALL, b'{"states": ["gone"]}', "One of: active,", id="a choice"),
    ],
)
def test_the_refusal_names_what_is_valid(
    service: ServiceDeclaration[Any, Any], payload: bytes, remedy: str
) -> None:
    assert (refusal(service, payload).remedy or "").startswith(remedy)


@pytest.mark.parametrize(
    ("service", "longest", "payload"),
    [
        pytest.param(BROWSE, 1_000, '{"words": "%s"}', id="words"),
        pytest.param(BROWSE, 256, '{"agent": "%s"}', id="a name"),
        pytest.param(BROWSE, 200, '{"after": "%s"}', id="a place in a list"),
        pytest.param(
            GET_ITEMS,
            1_024,
            '{"collection": "c", "keys": [{"namespace": [], "key": "%s"}]}',
            id="an item's key",
        ),
        pytest.param(
            LIST_NAMESPACES,
            1_024,
            '{"collection": "c", "matches": [{"type": "prefix", "path": ["%s"]}]}',
            id="a label of a namespace",
        ),
        pytest.param(
            GET_ITEMS, 64, '{"collection": "%s", "keys": []}', id="the name of a collection"
        ),
    ],
)
def test_a_text_may_be_as_long_as_its_field_allows_and_no_longer(
    service: ServiceDeclaration[Any, Any], longest: int, payload: str
) -> None:
    fitting, too_long = ((payload % ("x" * length)).encode() for length in (longest, longest + 1))

    decode(b'{"payload": %b}' % fitting, service.request)
    assert "Expected `str`" in refusal(service, too_long).message
