"""What a managed conversation costs at 10, 1,000 and 100,000 messages, and what its model sees.

Growth is what matters: adding a message costs the same at any length, returning a window costs
what the window holds, and a compaction costs what it compacts. Summaries are extracted here, so
that no model is measured.
"""

import time
from collections.abc import Callable, Iterator
from itertools import cycle, islice

from harness.report import Figure, run
from harness.texts import notes
from local2.conversation.config import ActiveContextPolicyConfig, ManagedMemoryConfig, Mode
from local2.conversation.managed import ManagedConversationMemory
from local2.conversation.message import Message

BLOCKS = 5
LENGTHS = 10, 1_000, 100_000
ADDED = 1_000
HANDED_OUT = 50
COMPACTED = 1_000, 10_000
WINDOW = 8_192
FULL = 0.8
"""Share of the window above which a conversation is compacted."""
TURNS = 1_000
LENGTH = 10, 40


async def measure(lengths: tuple[int, ...] = LENGTHS, turns: int = TURNS) -> list[Figure]:
    said = [Message(role="user", content=text) for text in notes(1_000, seed=1, words=LENGTH)]
    blocks = [await one_block(said, lengths) for _ in range(BLOCKS)]
    figures = [
        Figure(key=key, about=about, blocks=[b[key] for b in blocks], unit=unit, at_most=at_most)
        for key, about, unit, at_most in wanted(lengths)
    ]
    shares = await prompt_shares(turns)
    about = f"fullest prompt in {turns:,} turns, share of the window"
    return [*figures, Figure(key="fullest_prompt", about=about, blocks=[max(shares)], at_most=1.0)]


def wanted(lengths: tuple[int, ...]) -> Iterator[tuple[str, str, str, float | None]]:
    """Yield each figure's key, description, unit, and upper bound."""
    for length in lengths:
        yield f"add_us_{length}", f"add at {length:,} messages", "µs", 10.0
    yield "add_growth", f"add at {lengths[-1]:,} to {lengths[0]:,}", "", 2.0
    for length in lengths:
        yield f"get_us_{length}", f"get_messages at {length:,}, a window's worth", "µs", None
    yield "get_growth", f"get_messages at {lengths[-1]:,} to {lengths[1]:,}", "", 2.0
    for length in lengths:
        yield f"over_us_{length}", f"get_messages at {length:,}, never compacted", "µs", None
    yield "over_growth", f"never compacted at {lengths[-1]:,} to {lengths[1]:,}", "", 2.0
    for length in COMPACTED:
        yield f"compact_us_{length}", f"compaction of {length:,}, a message", "µs", None
    yield "compact_growth", f"compaction at {COMPACTED[1]:,} to {COMPACTED[0]:,}", "", 2.0


async def one_block(said: list[Message], lengths: tuple[int, ...]) -> dict[str, float]:
    found: dict[str, float] = {}
    for length in lengths:
        found[f"add_us_{length}"] = adding(said, length)
        found[f"get_us_{length}"] = handing_out(said, length, "sliding_window")
        found[f"over_us_{length}"] = handing_out(said, length, "compaction")
    for length in COMPACTED:
        found[f"compact_us_{length}"] = await compacting(said, length)
    for name, first, last in (
        ("add", lengths[0], lengths[-1]),
        ("get", lengths[1], lengths[-1]),
        ("over", lengths[1], lengths[-1]),
        ("compact", *COMPACTED),
    ):
        found[f"{name}_growth"] = found[f"{name}_us_{last}"] / found[f"{name}_us_{first}"]
    return found


def adding(said: list[Message], length: int) -> float:
    """Return the µs for adding one message; no compaction happens in between."""
    added = said[: min(length, ADDED)]
    memories = [filled(said, length, threshold=10**9) for _ in range(ADDED // len(added))]

    def add() -> None:
        for memory in memories:
            for message in added:
                memory.add(role="user", content=message.content)

    return timed(add) / len(added) / len(memories)


def handing_out(said: list[Message], length: int, mode: Mode) -> float:
    """Return the µs for a window of the newest messages, after one more was added."""
    memory = filled(said, length, threshold=WINDOW, mode=mode)
    memory.get_messages()

    def turns() -> None:
        for message in said[:HANDED_OUT]:
            memory.add(role="user", content=message.content)
            memory.get_messages()

    return timed(turns) / HANDED_OUT


async def compacting(said: list[Message], length: int) -> float:
    """Return the µs for each compacted message."""
    memory = filled(said, length, threshold=WINDOW)
    begun = time.perf_counter()
    assert await memory.compact_if_needed()
    return (time.perf_counter() - begun) / length * 1e6


async def prompt_shares(turns: int) -> list[float]:
    """Return how full the window is at each turn, with compactions when necessary."""
    memory = filled([], 0, threshold=int(WINDOW * FULL))
    shares = []
    for text in notes(turns, seed=2, words=LENGTH):
        memory.add(role="user", content=text)
        await memory.compact_if_needed()
        memory.get_messages()
        shares.append(memory.tokens / WINDOW)
        memory.add(role="assistant", content=text)
    return shares


def filled(
    said: list[Message], length: int, *, threshold: int, mode: Mode = "compaction"
) -> ManagedConversationMemory:
    policy = ActiveContextPolicyConfig(mode=mode)
    config = ManagedMemoryConfig(threshold_tokens=threshold, active_context=policy)
    memory = ManagedConversationMemory(config, description="You help.")
    for number, message in enumerate(islice(cycle(said), length)):
        memory.add(role=("user", "assistant")[number % 2], content=message.content)
    return memory


def timed(do: Callable[[], object]) -> float:
    begun = time.perf_counter()
    do()
    return (time.perf_counter() - begun) * 1e6


def main() -> None:
    run(__doc__, measure)
