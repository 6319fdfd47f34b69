"""Tool `forget`: erase what the caller chose of his own, everywhere, with a receipt."""

from typing import Annotated

import msgspec

from local.memory.service import MemoryService
from local.protocol.envelope import Name
from local.protocol.erasure import Receipt
from local.protocol.tool import ToolOutput
from local.tools.base import ERASES, Args, MemoryTool

DESCRIPTION = (
    "Erase for good what the caller said or stated: everything of the envelope's user, a session, "
    "a topic or the record of an id, with all its versions and what was derived from nothing else. "
    "Answers with a receipt; dry_run says what would go."
)
Named = Annotated[Name, msgspec.Meta(min_length=1)]


class Forget(Args, frozen=True):
    everything: Annotated[
        bool, msgspec.Meta(description="All that the envelope's user said or stated.")
    ] = False
    session_id: Named | None = None
    topic: Named | None = None
    id: Annotated[
        Named | None, msgspec.Meta(description="A record's: its turn or document goes with it.")
    ] = None
    dry_run: bool = False
    allow_again: Annotated[
        bool,
        msgspec.Meta(
            description="A later import may store it again, also if it is erased already."
        ),
    ] = False


async def forget(memory: MemoryService, args: Forget) -> ToolOutput:
    selection = memory.erasure.selection(
        everything=args.everything, session_id=args.session_id, topic=args.topic, id=args.id
    )
    receipt = await memory.erasure.erase(
        selection, dry_run=args.dry_run, allow_again=args.allow_again
    )
    return ToolOutput(content=_text(receipt), data=receipt)


def _text(receipt: Receipt) -> str:
    what = ", ".join(f"{count} {name}" for name, count in receipt.erased.items()) or "nothing"
    if receipt.dry_run:
        return f"Would erase {what}."
    left = [one for one in receipt.checks if one.found]
    rest = [f"{one.name}: {one.found} left. {one.note or ''}".strip() for one in left]
    return "\n".join([f"Erased {what}.", *rest] if rest else [f"Erased {what}; nothing is found."])


TOOL = MemoryTool[Forget](
    name="forget",
    title="Forget for good",
    description=DESCRIPTION,
    annotations=ERASES,
    args=Forget,
    function=forget,
    for_models=False,
    operation="delete_memory",
)
