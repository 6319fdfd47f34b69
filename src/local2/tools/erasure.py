"""The tool that erases what its caller said (`memory/erasure.py`)."""

from local2.memory.service import MemoryService
from local2.protocol.memory_tools import FORGET, Forget
from local2.protocol.tool import ToolOutput
from local2.tools.base import answers


@answers(FORGET)
async def forget(memory: MemoryService, args: Forget) -> ToolOutput:
    selection = memory.erasure.selection(
        everything=args.everything, session_id=args.session_id, topic=args.topic, id=args.id
    )
    receipt = await memory.erasure.erase(
        selection, dry_run=args.dry_run, allow_again=args.allow_again
    )
    what = ", ".join(f"{count} {name}" for name, count in receipt.erased.items()) or "nothing"
    left = [check for check in receipt.checks if check.found]
    if receipt.dry_run:
        text = f"Would erase {what}."
    elif not left:
        text = f"Erased {what}; the checks found nothing left."
    else:
        rest = [f"{check.name}: {check.found} left. {check.note or ''}".strip() for check in left]
        text = "\n".join([f"Erased {what}.", *rest])
    return ToolOutput(content=text, data=receipt)
