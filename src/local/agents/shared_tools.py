"""SharedTools: announces to a tenant the tools that another one shares with it.

Requests to a shared tool go from account to account, as the server is told; announcements of the
tools beside it must not, so they pass through here.
"""

from collections.abc import Callable, Mapping, Sequence

import structlog

from local.bus.connection import BusMessage, Connection
from local.bus.participant import Participant
from local.errors import BadRequestError
from local.protocol import subjects
from local.protocol.tool_messages import read_schema

NAME = "shared_tools"

Shares = Callable[[str], Mapping[str, Sequence[str]]]
"""Of a tenant: its shared tools, each with the tenants that may use it."""

log = structlog.get_logger()


class SharedTools(Participant):
    """Passes announcements on, and repeats them to whoever asks later."""

    def __init__(self, bus: Connection, shares: Shares) -> None:
        super().__init__(bus, name=NAME, description="Announces tools that tenants share.")
        self._shares = shares
        self._announced: dict[tuple[str, str], bytes] = {}
        self.serve(subjects.TOOL_SCHEMA, self._hear)
        self.serve(subjects.TOOL_SCHEMA_REQUEST, self._repeat)

    async def _hear(self, message: BusMessage) -> None:
        shares = self._shares(message.tenant)
        if not shares:
            return
        try:
            tool = read_schema(message.data).name
        except BadRequestError:  # whoever reads it in its own tenant logs that
            return
        if tool in shares:
            self._announced[message.tenant, tool] = message.data
            for other in shares[tool]:
                await self.bus.publish(subjects.TOOL_SCHEMA, message.data, tenant=other)

    async def _repeat(self, message: BusMessage) -> None:
        for (owner, tool), schema in list(self._announced.items()):
            if message.tenant in self._shares(owner).get(tool, ()):
                where = message.reply or subjects.TOOL_SCHEMA
                tenant = None if message.reply else message.tenant
                await self.bus.publish(where, schema, tenant=tenant)
