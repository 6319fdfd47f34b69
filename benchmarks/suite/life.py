"""What recall returns first about lives told in free words, with changes, denials and small talk.

No baseline; data that is not part of the project (`--data`). Each life is one user; its turns are
stored in order, and its questions are asked when all is stored. A right answer matches `want`, in
an item or in a later statement beside it. An outdated item is first if it matches `stale` and
nothing right stands beside it. A nod is a short reply of the assistant to a statement that asked
nothing. Denials and pairs of facts have a user each, as have pairs of turns, between which a search
is made.
"""

import argparse
import re
import tempfile
from collections.abc import Sequence
from pathlib import Path

import msgspec
import uvloop

from harness.client import Asker, asking, data_of, request_as
from harness.processes import running_stack
from harness.report import Figure, print_figures
from local2.protocol.memory_tools import RecalledItem, RecalledTopic

TOP_K = 5
NOD_CHARACTERS = 60


class Session(msgspec.Struct, frozen=True, kw_only=True):
    id: str
    time: str
    turns: list[tuple[str, str]]


class Question(msgspec.Struct, frozen=True, kw_only=True):
    text: str
    want: str
    stale: str


class Life(msgspec.Struct, frozen=True, kw_only=True):
    id: str
    sessions: list[Session]
    questions: list[Question]


class Denial(msgspec.Struct, frozen=True, kw_only=True):
    messages: list[str]
    keys: list[str]
    gone: str


class FactPair(msgspec.Struct, frozen=True, kw_only=True):
    old: str
    new: str
    question: str
    want: str


class TurnPair(msgspec.Struct, frozen=True, kw_only=True):
    turns: list[tuple[str, str]]
    between: str
    probe: str


class Data(msgspec.Struct, frozen=True, kw_only=True):
    lives: list[Life]
    denials: list[Denial]
    facts: list[FactPair]
    echo: list[TurnPair]


class Shares:
    """Counts what was so, and out of how many."""

    def __init__(self) -> None:
        self.counted: dict[str, list[bool]] = {}
        self.later: list[int] = []
        """Numbers of later statements beside the first items."""

    def add(self, name: str, *, so: bool) -> None:
        self.counted.setdefault(name, []).append(so)

    def figure(
        self,
        name: str,
        about: str,
        *,
        at_least: float | None = None,
        at_most: float | None = None,
    ) -> Figure:
        found = self.counted.get(name, [])
        share = sum(found) / max(len(found), 1)
        return Figure(key=name, about=about, blocks=[share], at_least=at_least, at_most=at_most)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--data", type=Path, required=True, metavar="FILE")
    parser.add_argument("--json", action="store_true", help="print one JSON object")
    parser.add_argument("--show", action="store_true", help="print each question that is not right")
    chosen = parser.parse_args()
    data = msgspec.json.decode(chosen.data.read_bytes(), type=Data)
    figures = uvloop.run(measure(data, show=chosen.show))
    print_figures(__doc__, figures, as_json=chosen.json)


async def measure(data: Data, *, show: bool) -> list[Figure]:
    shares = Shares()
    with tempfile.TemporaryDirectory() as folder:
        async with running_stack(Path(folder)) as url, asking(url) as asker:
            for life in data.lives:
                await tell(asker, life)
            for number, denial in enumerate(data.denials):
                await deny(asker, f"denial {number}", denial, shares)
            await asker.all_done()
            for life in data.lives:
                for question in life.questions:
                    await ask(asker, life, question, shares, show=show)
            for number, pair in enumerate(data.facts):
                await compare_facts(asker, f"fact {number}", pair, shares)
            for number, turns in enumerate(data.echo):
                await repeat(asker, f"echo {number}", turns, shares)
    return [
        shares.figure("right", "the first item is right", at_least=0.58),
        shares.figure("five", "a right item is among five", at_least=0.79),
        shares.figure("outdated_first", "an outdated item is first", at_most=0.08),
        Figure(
            key="later",
            about="later statements beside the first item",
            blocks=[sum(shares.later) / max(len(shares.later), 1)],
            at_most=1.5,
        ),
        shares.figure("nods", "items among five that are nods"),
        shares.figure("stood", "denials: what is denied stood before"),
        shares.figure("denied", "denials: it is gone afterwards"),
        shares.figure("facts", "pairs of facts: the new one is first", at_least=0.8),
        shares.figure("echo", "pairs of turns: the second is found", at_least=1.0),
    ]


async def tell(asker: Asker, life: Life) -> None:
    for session in life.sessions:
        messages = [
            {"role": role, "content": content, "timestamp": session.time}
            for turn in session.turns
            for role, content in zip(("user", "assistant"), turn, strict=True)
        ]
        await say(asker, life.id, session.id, messages)


async def say(asker: Asker, user: str, session: str, messages: Sequence[object]) -> None:
    request = request_as(user, messages=messages, session_id=f"{user} {session}")
    await asker.tool("ingest", request)


async def ask(asker: Asker, life: Life, question: Question, shares: Shares, *, show: bool) -> None:
    items = await asker.recall(question.text, user=life.id, top_k=TOP_K)
    matches = [has_right(item, question.want) for item in items]
    right = matches[:1] == [True]
    shares.add("right", so=right)
    shares.add("five", so=any(matches))
    if question.stale:
        stale = bool(items and re.search(question.stale, items[0].content, re.IGNORECASE))
        shares.add("outdated_first", so=stale and not right)
    shares.later.append(len(items[0].later) if items else 0)
    nods = nods_of(life)
    for item in items:
        shares.add("nods", so=item.content in nods)
    if show and not right:
        print(f"{question.text} ({question.want}) {[item.content[:80] for item in items]}")


def has_right(item: RecalledItem, want: str) -> bool:
    """Return whether an item, or what stands beside it, matches."""
    texts = (item.content, *(one.content for one in item.later))
    return any(re.search(want, text, re.IGNORECASE) for text in texts)


def nods_of(life: Life) -> set[str]:
    return {
        answer
        for session in life.sessions
        for said, answer in session.turns
        if "?" not in said + answer and len(answer) <= NOD_CHARACTERS
    }


async def deny(asker: Asker, user: str, denial: Denial, shares: Shares) -> None:
    for number, content in enumerate(denial.messages):
        await say(asker, user, f"{number}", [{"role": "user", "content": content}])
        await asker.all_done()
        stands = await is_standing(asker, user, denial)
        if number == 0:
            shares.add("stood", so=stands)
            stood = stands
    if stood:
        shares.add("denied", so=not stands)


async def is_standing(asker: Asker, user: str, denial: Denial) -> bool:
    """Return whether a key or the most important memories contain what is denied."""
    texts = [(await asker.tool("top_memories", request_as(user))).decode()]
    for key in denial.keys:
        answer = await asker.tool("recall_topic", request_as(user, topic=key))
        texts.append(data_of(answer, RecalledTopic).content or "")
    return any(re.search(denial.gone, text, re.IGNORECASE) for text in texts)


async def compare_facts(asker: Asker, user: str, pair: FactPair, shares: Shares) -> None:
    for content in (pair.old, pair.new):
        await asker.tool("remember_fact", request_as(user, content=content, scope="user"))
    await asker.all_done()
    items = await asker.recall(pair.question, user=user, top_k=TOP_K)
    shares.add("facts", so=bool(items and has_right(items[0], pair.want)))


async def repeat(asker: Asker, user: str, pair: TurnPair, shares: Shares) -> None:
    for number, turn in enumerate(pair.turns):
        if number:
            await asker.recall(pair.between, user=user, top_k=TOP_K)
        await asker.turn(user, f"{user} {number}", *turn)
    await asker.all_done()
    answer = pair.turns[-1][1]
    items = await asker.recall(pair.probe, user=user, top_k=20)
    shares.add("echo", so=any(item.content == answer for item in items))
