"""What the rules extract from conversations, compared with what was written down about them.

`--data` uses memories that others wrote about whole sessions; `--own` uses sentences of which half
are not worth remembering (`data/sayings.yaml`).
"""

import argparse
import time
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, TypeVar

import msgspec
import numpy as np
import yaml

from harness.dataset import DataError, moment
from harness.processes import BENCHMARKS
from harness.report import Figure, a_second, print_figures
from local2.language.words import stems, words
from local2.memory.extraction.extractor import Item, Passage, Utterance
from local2.memory.extraction.rules import extract
from local2.vectors.embedder import FloatMatrix
from local2.vectors.minilm import MiniLM

SAYINGS = BENCHMARKS / "data" / "sayings.yaml"
SAID_AT = datetime(2026, 5, 1, tzinfo=UTC)
"""The time of all SAYINGS, a Friday."""
SAME_WORDS = 0.4
"""Minimum F1 of the stems of two texts that say the same."""
SAME_SENSE = 0.7
"""Minimum cosine of the vectors of two texts that say the same in other words."""
HEADING = "\u3011"
"""Ends the heading with which some memories begin, which nobody said."""

T = TypeVar("T")
Likeness = Callable[[int, int], float]


class Turn(msgspec.Struct, frozen=True, kw_only=True):
    id: str
    role: str
    content: str
    name: str | None = None


class Session(msgspec.Struct, frozen=True, kw_only=True):
    id: str
    time: str
    turns: list[Turn]


class Memory(msgspec.Struct, frozen=True, kw_only=True):
    text: str
    session_id: str


class User(msgspec.Struct, frozen=True, kw_only=True):
    id: str
    sessions: list[Session]
    memories: list[Memory]


class Data(msgspec.Struct, frozen=True, kw_only=True):
    users: list[User]


class Kept(msgspec.Struct, frozen=True, kw_only=True):
    """What to extract from a saying: one of the types, containing a text, with a key if any."""

    type: str | list[str]
    holds: str
    topic: str | None = None

    def is_met_by(self, item: Item) -> bool:
        types = [self.type] if isinstance(self.type, str) else self.type
        return (
            item.memory_type in types
            and self.topic in {None, item.topic}
            and self.holds in item.content
        )


class Saying(msgspec.Struct, frozen=True, kw_only=True):
    say: str
    by: str | None = None
    keep: Kept | list[Kept] = []


class Sayings(msgspec.Struct, frozen=True, kw_only=True):
    tuned: list[Saying]
    held_out: list[Saying]


class Compared(msgspec.Struct, frozen=True, kw_only=True):
    """The facts of a session beside its memories."""

    facts: Sequence[str]
    memories: Sequence[str]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    source = parser.add_mutually_exclusive_group(required=True)
    source.add_argument("--data", type=Path, metavar="FILE", help="sessions and their memories")
    source.add_argument("--own", action="store_true", help="the sentences of this benchmark")
    parser.add_argument("--json", action="store_true", help="print one JSON object")
    chosen = parser.parse_args()
    try:
        figures = of_sayings() if chosen.own else of_sessions(_read(chosen.data, Data).users)
    except DataError as error:
        parser.error(str(error))
    print_figures(__doc__, figures, as_json=chosen.json)


def of_sessions(users: Sequence[User]) -> list[Figure]:
    """Score facts: one is right if an unused memory of its session says the same."""
    passages = [_passage(session) for user in users for session in user.sessions]
    found, rate = _timed(passages)
    compared = list(_compared(users, found))
    matched = _matched(compared)
    facts = sum(len(each.facts) for each in compared)
    memories = sum(len(each.memories) for each in compared)
    junk = sum(len(each.facts) for each in compared if not each.memories)
    return [
        _share("precision", "facts that say what a memory says", matched, facts, at_least=0.25),
        _share("recall", "memories that a fact says", matched, memories, at_least=0.2),
        _share("junk", "facts of sessions without a memory", junk, facts, at_most=0.1),
        a_second("messages_a_second", "messages read a second, one core", [rate]),
    ]


def of_sayings() -> list[Figure]:
    sayings = _read(SAYINGS, Sayings)
    held_out = sayings_counted(sayings.held_out, "held_out_", "held out: ")
    return sayings_counted(sayings.tuned) + held_out


def sayings_counted(sayings: Sequence[Saying], key: str = "", about: str = "") -> list[Figure]:
    """Score items: one is right if its saying should yield it."""
    found, rate = _timed([_said_alone(saying) for saying in sayings])
    right = [_right(saying, items) for saying, items in zip(sayings, found, strict=True)]
    kept = [count > 0 for saying, count in zip(sayings, right, strict=True) if saying.keep]
    every, rated = sum(map(len, found)), f"{about}sayings read a second, one core"
    correct, recalled = f"{about}items that should be kept", f"{about}sayings to keep that are kept"
    return [
        _share(f"{key}precision", correct, sum(right), every, at_least=0.95),
        _share(f"{key}recall", recalled, sum(kept), len(kept), at_least=0.7),
        a_second(f"{key}messages_a_second", rated, [rate]),
    ]


def _timed(passages: Sequence[Passage]) -> tuple[list[list[Item]], float]:
    """Return the items of each passage, and how many messages were read a second."""
    begun = time.process_time()
    found = [extract(passage) for passage in passages]
    seconds = time.process_time() - begun
    return found, sum(len(passage.messages) for passage in passages) / seconds


def _passage(session: Session) -> Passage:
    at = moment(session.time)
    if at is None:
        raise DataError(f"Session {session.id!r}: {session.time!r} is no time.")
    messages = [
        Utterance(id=turn.id, role=turn.role, speaker=turn.name, content=turn.content, at=at)
        for turn in session.turns
    ]
    return Passage(messages=messages)


def _said_alone(saying: Saying) -> Passage:
    said = Utterance(id="1", role="user", speaker=saying.by, content=saying.say, at=SAID_AT)
    return Passage(messages=[said])


def _right(saying: Saying, items: Sequence[Item]) -> int:
    keep = [saying.keep] if isinstance(saying.keep, Kept) else saying.keep
    return sum(any(one.is_met_by(item) for one in keep) for item in items)


def _compared(users: Sequence[User], found: Sequence[Sequence[Item]]) -> Iterator[Compared]:
    items = iter(found)
    for user in users:
        memories = defaultdict[str, list[str]](list)
        for memory in user.memories:
            memories[memory.session_id].append(_without_heading(memory.text))
        for session in user.sessions:
            facts = [item.content for item in next(items)]
            yield Compared(facts=facts, memories=memories[session.id])


def _without_heading(text: str) -> str:
    return text.partition(HEADING)[2].strip() if text.startswith("\u3010") else text


def _matched(compared: Sequence[Compared]) -> int:
    """Count facts with a matching memory each: matched by words first, the rest by meaning."""
    both = [each for each in compared if each.facts and each.memories]
    texts = sorted({text for each in both for text in (*each.facts, *each.memories)})
    vectors = _vectors(texts)
    stemmed = {text: set(stems(words(text))) for text in texts}
    return sum(_pairs(each, stemmed, vectors) for each in both)


def _pairs(each: Compared, stemmed: dict[str, set[str]], vectors: dict[str, FloatMatrix]) -> int:
    facts, memories = set(range(len(each.facts))), set(range(len(each.memories)))

    def words_shared(fact: int, memory: int) -> float:
        ours, theirs = stemmed[each.facts[fact]], stemmed[each.memories[memory]]
        return 2 * len(ours & theirs) / max(len(ours) + len(theirs), 1)

    def cosine(fact: int, memory: int) -> float:
        return float(np.dot(vectors[each.facts[fact]], vectors[each.memories[memory]]))

    _take(facts, memories, words_shared, SAME_WORDS)
    _take(facts, memories, cosine, SAME_SENSE)
    return len(each.facts) - len(facts)


def _take(facts: set[int], memories: set[int], likeness: Likeness, least: float) -> None:
    """Remove the pairs that are alike from both sets, the most similar first."""
    scores = [(likeness(fact, memory), fact, memory) for fact in facts for memory in memories]
    for score, fact, memory in sorted(scores, reverse=True):
        if score >= least and fact in facts and memory in memories:
            facts.remove(fact)
            memories.remove(memory)


def _vectors(texts: Sequence[str]) -> dict[str, Any]:
    embedder = MiniLM.load(Path("models"))
    return dict(zip(texts, embedder.embed_queries(texts), strict=True))


def _share(
    key: str,
    about: str,
    part: int,
    whole: int,
    *,
    at_least: float | None = None,
    at_most: float | None = None,
) -> Figure:
    share = part / max(whole, 1)
    return Figure(key=key, about=about, blocks=[share], at_least=at_least, at_most=at_most)


def _read(path: Path, into: type[T]) -> T:
    """Read a JSON or YAML file."""
    try:
        text = path.read_bytes()
        if path.suffix == ".yaml":
            return msgspec.convert(yaml.safe_load(text), into)
        return msgspec.json.decode(text, type=into)
    except (OSError, msgspec.DecodeError, yaml.YAMLError) as error:
        raise DataError(f"{path}: {error}") from error
