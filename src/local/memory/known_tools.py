"""What the memory knows of tools: which are its own, and what others say of themselves."""

from collections.abc import Callable
from datetime import datetime

from local.memory.served import Served
from local.protocol.payloads import ToolCallRecord, ToolSchema

OWN_RESULT = "answered by this memory itself"
NOT_RECORDED = "not to be recorded, as its tool says"

Announced = Callable[[str], ToolSchema | None]
"""What a tool of that name announced, if that was heard."""


class KnownTools:
    """`own` are the names of the tools over this memory.

    A tool of another's may have such a name: whose a result is, what was answered says.
    """

    def __init__(self, served: Served, announced: Announced) -> None:
        self.own: set[str] = set()
        self._served = served
        self._announced = announced

    def why_not(self, owner: str, call: ToolCallRecord) -> str | None:
        """Why the result of an owner's call is not recorded, if it is not."""
        if self._is_own(owner, call):
            return OWN_RESULT
        announced = self._of_another(call.name)
        recorded = call.recorded and (announced is None or announced.recorded)
        return None if recorded else NOT_RECORDED

    def may_be_own(self, tool: str, at: datetime) -> bool:
        """Whether one of the memory's own may have answered, before anybody noted what it did."""
        return tool in self.own and at < self._served.since

    def reads_memory(self, tool: str) -> bool:
        """Whether it is another's tool whose results come from the memory."""
        announced = self._of_another(tool)
        return announced is not None and announced.reads_memory

    def _is_own(self, owner: str, call: ToolCallRecord) -> bool:
        """Whether a tool of this memory answered; of one that answered nothing the name tells."""
        if not call.content.strip():
            return call.name in self.own
        return self._served.shown(owner, call.name, call.content) is not None

    def _of_another(self, tool: str) -> ToolSchema | None:
        """What was announced under a name that is none of the memory's own."""
        return None if tool in self.own else self._announced(tool)
