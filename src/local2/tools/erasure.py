"""The tool that erases what its caller said (`memory/erasure.py`)."""

from local2.memory.service import MemoryService
from local2.protocol.memory_tools import FORGET, Forget, Receipt
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
    return ToolOutput(content=_receipt_text(receipt), data=receipt)


def _receipt_text(receipt: Receipt) -> str:
    what = ", ".join(f"{count} {name}" for name, count in receipt.erased.items()) or "nothing"
    if receipt.dry_run:
        return f"Would erase {what}."
    left = [one for one in receipt.checks if one.found]
    rest = [f"{one.name}: {one.found} left. {one.note or ''}".strip() for one in left]
    if not left:
        return f"Erased {what}; the checks found nothing left."
    return "\n".join([f"Erased {what}.", *rest])
