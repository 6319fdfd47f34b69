"""What users state, kept as facts that are linked; only where the settings ask for it."""

import msgspec
import structlog

from local.bus.connection import Connection
from local.client.tools import call_tool
from local.conversation.knowledge_graph import KGMemory
from local.errors import ModelError
from local.llm.structured import StructuredModel
from local.protocol.envelope import Caller

TOOL = "add_knowledge"
AT_ONCE = 100
"""As many facts as the tool takes."""

log = structlog.get_logger()


async def learn(
    bus: Connection, text: str, *, caller: Caller, model: StructuredModel | None, within: float
) -> None:
    """Extract facts from what a user said, and keep them for that user.

    Without a model rules extract. Failing is logged: the turn has been remembered word for word.

    Args:
        bus: Where the memory is.
        text: What the user said.
        caller: The user.
        model: Extracts.
        within: Seconds to wait for the memory.
    """
    knowledge = KGMemory(model)
    try:
        triplets = await knowledge.extract_and_update_from_text(text, role="user")
    except ModelError as error:
        log.warning("nothing_learned", reason=str(error))
        return
    facts = [msgspec.to_builtins(triplet) for triplet in triplets]
    for start in range(0, len(facts), AT_ONCE):
        arguments = {"facts": facts[start : start + AT_ONCE], "scope": "user"}
        result = await call_tool(bus, TOOL, arguments, caller=caller, timeout=within)
        if not result.ok:
            log.warning("not_learned", facts=len(facts) - start, reason=result.outcome)
            return
