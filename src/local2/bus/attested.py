"""Determine who sent a message, on a server with accounts."""

from datetime import datetime
from typing import Any

import msgspec

from local2.bus.identity import REQUEST_INFO, RequestInfo, token_of
from local2.bus.receiving import BusMessage
from local2.errors import ForbiddenError
from local2.protocol.envelope import Caller, Envelope
from local2.tenants.accounts import names_sender
from local2.tenants.directory import Directory


class Attested:
    """Trusts the server and signed tokens.

    `within`: the tenant whose account the connection belongs to; None for the memory's own
    connection, which receives the messages of all tenants.
    """

    def __init__(self, directory: Directory, within: str | None = None) -> None:
        self._directory = directory
        self._within = within

    def caller_of(
        self, message: BusMessage, envelope: Envelope[Any], at: datetime | None = None
    ) -> Caller:
        tenant = self._directory.tenant(self._within or message.tenant)
        agent: str | None = None  # a stream that delivers a message does not name its sender
        if self._within is None and names_sender(message.subject):
            info = (message.headers or {}).get(REQUEST_INFO)
            if info is None:  # unreadable headers hide it; that must not grant any rights
                raise ForbiddenError("The headers are invalid: they do not name the sender.")
            agent = tenant.agent_of(msgspec.json.decode(info, type=RequestInfo).user)
            if agent is None:
                raise ForbiddenError(
                    "The sender is no longer an agent of the tenant.",
                    remedy="Connect with the agent's current key; `local2 tenants list` shows "
                    "them.",
                )
        token = token_of(message)
        person = tenant.person_of(token, at) if token else None
        return Caller(
            tenant=tenant.name,
            user=person.user if person else None,
            agent=agent or (person.agent if person else None),
            session_id=envelope.session_id,
            query_id=envelope.query_id,
            token=token,
            role=tenant.role_of(agent, person),
        )
