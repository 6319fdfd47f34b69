"""Facts that change: whether the newest value is found first, and multi-hop questions.

Facts are stored in order with `remember_fact`, or with `--as messages` as what a user says in one
session. A one-hop question asks for a value that may have older versions; a multi-hop question asks
for what a chain of facts leads to.
"""

import argparse
import tempfile
from collections.abc import Sequence
from pathlib import Path

import msgspec
import uvloop
from rich.console import Console

from harness.client import Asker, asking, request_of
from harness.processes import running_stack
from harness.report import Figure, table_of

TOP_K = 20
SESSION = "updates"


class Fact(msgspec.Struct, frozen=True):
    n: int
    text: str


class Question(msgspec.Struct, frozen=True, kw_only=True):
    """A question; the last of the gold facts holds the answer, those before it lead there."""

    question: str
    gold_fact_numbers: Sequence[int]
    superseded_fact_numbers: Sequence[int]
    hops: int


class Facts(msgspec.Struct, frozen=True, kw_only=True):
    facts: list[Fact]
    questions: list[Question]


class Places(msgspec.Struct, frozen=True, kw_only=True):
    """Ranks of the facts that concern a question, from 0; TOP_K if not found."""

    hops: int
    gold: list[int]
    superseded: list[int]

    @property
    def is_stale(self) -> bool:
        return min(self.superseded) < self.gold[-1]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--data", type=Path, required=True, metavar="FILE")
    parser.add_argument("--as", dest="form", choices=("facts", "messages"), default="facts")
    parser.add_argument("--json", action="store_true", help="print one JSON object")
    chosen = parser.parse_args()
    data = msgspec.json.decode(chosen.data.read_bytes(), type=Facts)
    figures = figures_of(uvloop.run(measure(data, chosen.form)))
    if chosen.json:
        print(msgspec.json.encode(report_of(figures)).decode())
    else:
        Console().print(table_of(__doc__, list(figures.values())))


async def measure(data: Facts, form: str) -> list[Places]:
    store = say if form == "messages" else remember
    with tempfile.TemporaryDirectory() as folder:
        async with running_stack(Path(folder)) as url, asking(url) as asker:
            for fact in sorted(data.facts, key=lambda fact: fact.n):
                await store(asker, fact)
            await asker.all_indexed()
            texts = {fact.n: fact.text for fact in data.facts}
            return [await places(asker, question, texts) for question in data.questions]


async def remember(asker: Asker, fact: Fact) -> None:
    await asker.tool("remember_fact", request_of(content=fact.text, scope="user"))


async def say(asker: Asker, fact: Fact) -> None:
    message = {"id": str(fact.n), "role": "user", "content": fact.text}
    await asker.tool("ingest", request_of(messages=[message], session_id=SESSION))


async def places(asker: Asker, question: Question, texts: dict[int, str]) -> Places:
    found = [item.content for item in await asker.recall(question.question, top_k=TOP_K)]
    at = {text: place for place, text in reversed(list(enumerate(found)))}

    def of(numbers: Sequence[int]) -> list[int]:
        return [at.get(texts[number], TOP_K) for number in numbers]

    return Places(
        hops=question.hops,
        gold=of(question.gold_fact_numbers),
        superseded=of(question.superseded_fact_numbers),
    )


def figures_of(found: Sequence[Places]) -> dict[str, Figure]:
    one = [places for places in found if places.hops == 1]
    several = [places for places in found if places.hops > 1]
    replaced = [places.is_stale for places in one if places.superseded]
    answers = [places.gold[-1] for places in several]
    chains = [sum(at < TOP_K for at in places.gold) / len(places.gold) for places in several]
    figures = [
        _share("hit_at_1", "one hop: newest first", [p.gold[-1] < 1 for p in one], at_least=0.9),
        _share("stale_first", "one hop: an older one before it", replaced, at_most=0.05),
        _share("hit_at_10", "several hops: answer @10", [n < 10 for n in answers], at_least=0.5),
        _share("hit_at_20", "several hops: answer @20", [n < TOP_K for n in answers]),
        _share("chain_at_20", "several hops: share of the chain @20", chains),
    ]
    return {figure.key: figure for figure in figures}


def report_of(figures: dict[str, Figure]) -> dict[str, object]:
    """Return what `--json` prints."""
    values = {key: round(figure.value, 4) for key, figure in figures.items()}
    one_hop = {key: values.pop(key) for key in ("hit_at_1", "stale_first")}
    reached = all(figure.reached for figure in figures.values())
    return {"one_hop": one_hop, "several_hops": values, "reached": reached}


def _share(
    key: str,
    about: str,
    shares: Sequence[float],
    *,
    at_least: float | None = None,
    at_most: float | None = None,
) -> Figure:
    mean = sum(shares) / max(len(shares), 1)
    return Figure(key=key, about=about, blocks=[mean], at_least=at_least, at_most=at_most)
