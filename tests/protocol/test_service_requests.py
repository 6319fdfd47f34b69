"""What services refuse, and what they then say."""

from typing import Any

import pytest
from msgspec import Raw

from local2.errors import BadRequestError
from local2.protocol.envelope import decode
from local2.protocol.services import BROWSE_ALL, EXPLAIN, SERVICES, TASKS, ServiceDeclaration
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
