"""On a server with accounts, a request without a readable sender is refused."""

import pytest

from local2.bus.attested import Attested
from local2.bus.connection import BusMessage
from local2.errors import ForbiddenError
from local2.protocol.envelope import Envelope
from local2.protocol.payloads import Empty
from local2.settings import RolesSettings
from local2.tenants.directory import Agent, Directory, Entries, Roles, TenantEntry

KEY = "UREADER"
READER = Agent(key=KEY, role="reader")
ENTRIES = Entries(memory="U", tenants={"acme": TenantEntry(agents={"shell": READER})})
ENVELOPE = Envelope(payload=Empty())


@pytest.fixture
def identity() -> Attested:
    return Attested(Directory(ENTRIES, Roles(RolesSettings())))


def request(headers: dict[str, str] | None, subject: str = "tool.request.save_topic") -> BusMessage:
    return BusMessage(subject, b"", headers=headers, tenant="acme")


def test_a_reader_keeps_its_role(identity: Attested) -> None:
    named = request({"Nats-Request-Info": f'{{"user": "{KEY}"}}'})

    caller = identity.caller_of(named, ENVELOPE)

    assert (caller.agent, caller.role) == ("shell", "reader")


@pytest.mark.parametrize("headers", [None, {}, {"Description": "a"}])
def test_a_request_without_its_sender_is_forbidden(
    identity: Attested, headers: dict[str, str] | None
) -> None:
    with pytest.raises(ForbiddenError, match="do not name the sender"):
        identity.caller_of(request(headers), ENVELOPE)


def test_a_published_message_needs_no_sender(identity: Attested) -> None:
    caller = identity.caller_of(request(None, "response.generation"), ENVELOPE)

    assert (caller.agent, caller.role) == (None, "writer")
