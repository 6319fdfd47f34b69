"""Forgetting a user's 10,000 of 100,000 records, until the receipt says that nothing is found.

This includes erasing, removal from the index, merging the full text, and searching for leftovers.
Then the user searches for the erased texts.
"""

import tempfile
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path

from harness.chat import messages
from harness.client import USER, Asker, asking, data_of, request_of, seconds
from harness.fill import made_up_vectors
from harness.processes import running_stack
from harness.report import Figure, run
from local2.ledger.records import NewRecord
from local2.protocol.envelope import content_id
from local2.protocol.memory_tools import Receipt
from local2.vectors.minilm import MiniLM
from suite.recall import fill

RECORDS = 100_000
USERS = 10
SESSION = 50
ASKED = 50
FIRST = datetime(2023, 1, 1, tzinfo=UTC)


async def measure() -> list[Figure]:
    texts = messages(RECORDS, seed=1)
    records = [message(number, text) for number, text in enumerate(texts)]
    own = [record for record in records if record.owner == USER]
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        vectors = made_up_vectors(MiniLM.load(Path("models")), texts)
        await fill(folder, records, vectors)
        async with running_stack(folder) as url, asking(url) as asker:
            await asker.all_indexed()
            receipts: list[bytes] = []

            async def forget() -> None:
                receipts.append(await asker.tool("forget", request_of(everything=True)))

            took = await seconds(forget())
            receipt = data_of(receipts[0], Receipt)
            found = await found_of(asker, own)
            left = await asker.status()
    assert left.records == RECORDS - len(own), left
    return [
        Figure(key="seconds", about=f"forget {len(own):,} of {RECORDS:,}", blocks=[took],
               unit="s", at_most=5),
        Figure(key="erased", about="records erased", blocks=[receipt.total], at_least=len(own)),
        Figure(key="found", about="found after, by checks and by recall",
               blocks=[sum(one.found for one in receipt.checks) + found], at_most=0),
    ]  # fmt: skip


def message(number: int, text: str) -> NewRecord:
    """Return a message; a tenth of all belongs to the benchmark's user, the rest to others."""
    user, of_user = number % USERS, number // USERS
    owner = f"user {user}" if user else USER
    return NewRecord(
        id=content_id("chat_message", owner, of_user),
        kind="chat_message",
        owner=owner,
        role="user",
        session_id=f"s{of_user // SESSION}",
        content=text,
        event_time=FIRST + timedelta(minutes=number),
    )


async def found_of(asker: Asker, erased: Sequence[NewRecord]) -> int:
    """Count the items recalled for some of the erased texts."""
    found = 0
    for record in erased[:: max(1, len(erased) // ASKED)]:
        query = record.content[:200]
        found += len(await asker.recall(query, source_kinds=["chat_message"], top_k=20))
    return found


def main() -> None:
    run(__doc__, measure)
