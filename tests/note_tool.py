"""A separate tool for the tests of tools on the bus."""

import asyncio
from typing import Annotated

import msgspec

from local2.protocol.envelope import Caller
from local2.protocol.tool import Tool, ToolOutput, may_wait


class Note(msgspec.Struct, forbid_unknown_fields=True):
    text: Annotated[str, msgspec.Meta(min_length=1, max_length=20, description="What to note.")]


class Noted(msgspec.Struct):
    text: str


class Notes:
    """A tool that notes who said what, as slowly or badly as a test needs."""

    def __init__(self) -> None:
        self.noted: list[tuple[Caller, str]] = []
        self.could_wait: list[float] = []
        self.under_way = 0
        self.may_finish = asyncio.Event()
        self.may_finish.set()
        self.failure: Exception | None = None
        self.answer = "Noted."
        self.data: msgspec.Struct | None = None

    async def run(self, caller: Caller, args: Note) -> ToolOutput:
        self.could_wait.append(may_wait())
        self.under_way += 1
        try:
            await self.may_finish.wait()
        finally:
            self.under_way -= 1
        if self.failure is not None:
            raise self.failure
        self.noted.append((caller, args.text))
        return ToolOutput(content=self.answer, data=self.data or Noted(text=args.text))

    def tool(self) -> Tool:
        return Tool(
            name="note", description="Note a text.", version="1.2.3", args=Note, run=self.run
        )
