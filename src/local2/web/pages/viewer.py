"""Somebody who looks at a page: what they may do, and the calls that their page makes."""

from collections.abc import Mapping

import msgspec

from local2.client.calls import Calls
from local2.client.memory import Memory
from local2.client.stack_tools import StackTools
from local2.errors import ForbiddenError
from local2.protocol.envelope import Role, Sender
from local2.settings import Settings
from local2.tenants.directory import Roles


class Viewer:
    """The one for whom a page is built.

    `query`: the parameters of the page's address, by which a page can be bookmarked and sent.
    `memory` has a method for most tools; `calls` makes any other request.
    """

    def __init__(
        self,
        link: StackTools,
        settings: Settings,
        caller: Sender,
        role: Role | None,
        query: Mapping[str, str],
    ) -> None:
        self.link = link
        self.settings = settings
        self.caller = caller
        self.role = role
        self.query = query
        self.calls: Calls = link.calls(caller, settings.http.timeout)
        self.memory = Memory(self.calls)
        self._roles = Roles(settings.roles)

    @property
    def has_accounts(self) -> bool:
        return self.caller.token is not None

    def may(self, action: str) -> bool:
        """Whether the viewer's role permits a tool or a service; the stack decides in any case."""
        try:
            self._roles.check(self.role, action)
        except ForbiddenError:
            return False
        return True

    def looking_as(self, user: str | None) -> "Viewer":
        """The viewer as a user's memories are seen and changed; None: as they are.

        With accounts, nobody sees more than the own token allows.
        """
        if user is None or user == self.caller.user:
            return self
        caller = msgspec.structs.replace(self.caller, user=user)
        return Viewer(self.link, self.settings, caller, self.role, self.query)
