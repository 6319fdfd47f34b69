"""Announce tools to the tenants that they are shared with.

The server routes requests for a shared tool between accounts. It does not route announcements,
because a tenant's other tools must not be announced to others.
"""

from collections.abc import Callable, Mapping, Sequence

from local2.bus.connection import BusMessage, Connection
from local2.bus.participant import Participant
from local2.errors import BadRequestError
from local2.protocol import subjects
from local2.protocol.lenient.tools import read_schema

SHARED_TOOLS = "shared_tools"
SharedToolsOf = Callable[[str], Mapping[str, Sequence[str]]]
"""Returns a tenant's shared tools, each with the tenants that may use it."""


class SharedTools(Participant):
    """Forwards announcements of shared tools, and repeats them on request."""

    def __init__(self, bus: Connection, shares: SharedToolsOf) -> None:
        super().__init__(bus, name=SHARED_TOOLS, description="Announces tools that tenants share.")
        self._shares = shares
        self._announced: dict[tuple[str, str], bytes] = {}
        self.serve(subjects.TOOL_SCHEMA, self._pass_on)
        self.serve(subjects.TOOL_SCHEMA_REQUEST, self._repeat)

    async def _pass_on(self, message: BusMessage) -> None:
        shares = self._shares(message.tenant)
        if not shares:
            return
        try:
            tool = read_schema(message.data).name
        except BadRequestError:  # the tenant's own participants log that
            return
        if tool in shares:
            self._announced[message.tenant, tool] = message.data
            for other in shares[tool]:
                await self.bus.publish(subjects.TOOL_SCHEMA, message.data, tenant=other)

    async def _repeat(self, message: BusMessage) -> None:
        for (owner, tool), schema in list(self._announced.items()):
            if message.tenant in self._shares(owner).get(tool, ()):
                if message.reply:
                    await self.bus.answer(message, schema)
                else:
                    await self.bus.publish(subjects.TOOL_SCHEMA, schema, tenant=message.tenant)
