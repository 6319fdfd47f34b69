"""Store long tool outputs whole, under a key that only their owner can read."""

from local2.errors import InvalidArgumentsError
from local2.ledger.ledger import Ledger
from local2.ledger.operations.sessions import StoredOutput
from local2.protocol.payloads import OutputPart, new_output_key


class LongOutputs:
    """The tool outputs of one owner. Keys of different owners are independent."""

    def __init__(self, ledger: Ledger, owner: str) -> None:
        self._outputs = ledger.outputs
        self._owner = owner

    async def store(self, content: str) -> str:
        """Store a whole output; return its key."""
        key = new_output_key()
        await self.store_part(OutputPart(key=key, offset=0, text=content, last=True))
        return key

    async def store_part(self, part: OutputPart) -> None:
        """Store the next part of an output. Storing a part again has no effect.

        Raises:
            InvalidArgumentsError: The previous part is missing, or the output is complete.
        """
        if not await self._outputs.store(self._owner, part):
            raise InvalidArgumentsError(
                f"offset: no part of {part.key} can be added at {part.offset}.",
                remedy="Send the parts in order, each after the previous one is acknowledged.",
            )

    async def read(self, key: str, offset: int, limit: int) -> StoredOutput:
        """Up to `limit` characters of an output from `offset` on.

        Raises:
            InvalidArgumentsError: The owner has no such output, it is incomplete, or it ends before
                the offset.
        """
        stored = await self._outputs.read(self._owner, key, offset, limit)
        if stored is None:
            raise InvalidArgumentsError(
                f"tool_output_key: you have no tool output {key!r}.",
                remedy="Copy the key exactly as the preview names it.",
            )
        if not stored.complete:
            raise InvalidArgumentsError(
                f"tool_output_key: {key} is not complete; its sender stopped before the end.",
                remedy="Call the tool again.",
            )
        if offset >= stored.total:
            raise InvalidArgumentsError(
                f"offset: {key} ends at {stored.total}.", remedy="Use a smaller offset."
            )
        return stored
