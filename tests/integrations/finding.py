"""What a user's other agents find of the content that an adapter stored."""

from pathlib import Path

from local2.client.memory import connect
from local2.protocol.memory_tools import RecalledItem


async def found_by(home: Path, user: str, query: str) -> list[RecalledItem]:
    """Return what another agent finds, in a separate session."""
    async with connect(home=home, user=user, session="later") as memory:
        return (await memory.recall(query, top_k=20)).items
