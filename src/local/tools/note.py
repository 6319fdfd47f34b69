"""Tool `note`: a short note on the session, which every agent in it sees."""

from typing import Annotated

import msgspec

from local.llm.framing import note_line
from local.memory.service import MemoryService
from local.protocol.answers import SessionNotes
from local.protocol.tool import ToolOutput
from local.tools.base import TEXT_BYTES, WRITES, Args, MemoryTool, shortened

DESCRIPTION = (
    "Note something for the rest of this session: a decision, a result, what is still to do, e.g. "
    "note(content='Invoices are checked; shipping is still open.'). All notes of the session come "
    "back, whoever made them. When they are many, the oldest are shortened into one. For what "
    "matters beyond the session use remember_fact."
)
MAX_NOTE = 2_000
MAX_ROLE = 64


class MakeNote(Args, frozen=True):
    content: Annotated[
        str,
        msgspec.Meta(min_length=1, max_length=MAX_NOTE, description="The note, in a sentence."),
    ]
    role: Annotated[
        Annotated[str, msgspec.Meta(min_length=1, max_length=MAX_ROLE)] | None,
        msgspec.Meta(description="In which role it is noted, e.g. 'planner'; else who calls."),
    ] = None


async def note(memory: MemoryService, args: MakeNote) -> ToolOutput:
    noted = await memory.sessions.note(args.content, args.role)
    outcome = "Noted." if noted.was_new else "Noted before."
    lines = [
        note_line(one.role, one.content, merged=one.merges > 0)
        for one in shortened(noted.notes, TEXT_BYTES)
    ]
    return ToolOutput(
        content="\n".join([f"{outcome} The notes of this session:", *lines]),
        data=SessionNotes(notes=noted.notes, was_new=noted.was_new, merged=noted.merged),
    )


TOOL = MemoryTool(
    name="note",
    title="Note for this session",
    description=DESCRIPTION,
    annotations=WRITES,
    args=MakeNote,
    function=note,
    operation="create_memory",
)
