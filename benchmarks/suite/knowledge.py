"""How many one-step and two-step questions about facts in triplets recall answers.

The graph of fifty people and fifty companies is made up, and the same on every machine. A one-step
question names an entity of the fact that answers it; a two-step question does not, but names an
entity of a fact that is linked with the answer.
"""

import itertools
import random
import tempfile
from collections.abc import Sequence
from pathlib import Path

import msgspec

from harness.client import Asker, asking, request_of
from harness.processes import running_stack
from harness.report import Figure, run
from harness.texts import choices_of

_LISTS = """
FIRST: Ada, Bruno, Cleo, Dario, Edda, Fabio, Greta, Hugo, Ines, Jonas, Kira, Leon, Mona, Nils, Olga
LAST: Adler, Brandt, Costa, Dietz, Ebner, Falk, Gruber, Haas, Jansen, Keller, Lorenz, Meyer, Novak
FIRM: Northwind, Bluepeak, Ironleaf, Sunforge, Greyoak, Redmill, Stonebay, Fernhill, Goldcrest
FORM: Ltd, Group, Brothers, Trading, Works, Partners
CITY: Bergen, Oslo, Turku, Malmo, Aarhus, Gdansk, Riga, Vilnius, Tallinn, Porto, Lisbon, Lyon
HOBBY: chess, sailing, opera, climbing, pottery, tennis
WARES: pumps, lenses, valves, carpets, sensors, bicycles
"""
WORDS = choices_of(_LISTS)
COUNT = 50
A_REQUEST = 20
TOP_K = 20


class Question(msgspec.Struct, frozen=True, kw_only=True):
    """A question, and the beginning of the fact that answers it."""

    text: str
    answer: str


class Graph(msgspec.Struct, frozen=True, kw_only=True):
    facts: list[tuple[str, str, str]]
    one_step: list[Question]
    two_steps: list[Question]


def graph(seed: int) -> Graph:
    chance = random.Random(seed)  # noqa: S311 - repeatable is what it has to be
    people = chance.sample(names("FIRST", "LAST"), COUNT)
    firms = chance.sample(names("FIRM", "FORM"), COUNT)
    made = Graph(facts=[], one_step=[], two_steps=[])
    for number, (person, firm) in enumerate(zip(people, firms, strict=True)):
        spouse = chance.choice([other for other in people if other != person])
        made.facts.append((person, "works for", firm))
        made.facts.append((person, "likes", chance.choice(WORDS["HOBBY"])))
        made.facts.append((person, "was born in", str(1950 + number)))
        made.facts.append((person, "is married to", spouse))
        made.facts.append((firm, "has its head office in", chance.choice(WORDS["CITY"])))
        made.facts.append((firm, "makes", chance.choice(WORDS["WARES"])))
        asked = {
            f"Where does {person} work?": f"{person} works for",
            f"What is {person}'s hobby?": f"{person} likes",
            f"When was {person} born?": f"{person} was born",
            f"What does {firm} produce?": f"{firm} makes",
            f"In which city is the employer of {person}?": f"{firm} has its head office",
            f"What does the company that {person} works for make?": f"{firm} makes",
        }
        questions = [Question(text=text, answer=answer) for text, answer in asked.items()]
        made.one_step.extend(questions[:4])
        made.two_steps.extend(questions[4:])
    chance.shuffle(made.facts)
    return made


def names(*parts: str) -> list[str]:
    return [" ".join(words) for words in itertools.product(*map(WORDS.__getitem__, parts))]


async def measure() -> list[Figure]:
    made = graph(seed=1)
    with tempfile.TemporaryDirectory() as folder:
        async with running_stack(Path(folder)) as url, asking(url) as asker:
            for begin in range(0, len(made.facts), A_REQUEST):
                await add(asker, made.facts[begin : begin + A_REQUEST])
            await asker.all_indexed()
            one = [await place(asker, question) for question in made.one_step]
            two = [await place(asker, question) for question in made.two_steps]
    return [
        within("one_step_at_1", "one step: answer first", one, 1, at_least=0.8),
        within("one_step_at_5", "one step: answer in the first 5", one, 5, at_least=0.95),
        within("two_steps_at_5", "two steps: answer in the first 5", two, 5),
        within("two_steps_at_10", "two steps: answer in the first 10", two, 10, at_least=0.5),
        within("two_steps_at_20", "two steps: answer in the first 20", two, 20),
    ]


async def add(asker: Asker, facts: Sequence[tuple[str, str, str]]) -> None:
    triplets = [dict(zip(("subject", "predicate", "object"), fact, strict=True)) for fact in facts]
    await asker.tool("add_knowledge", request_of(facts=triplets, scope="user"))


async def place(asker: Asker, question: Question) -> int:
    """Return the rank of the answer, from 0; TOP_K if it was not found."""
    found = [item.content for item in await asker.recall(question.text, top_k=TOP_K)]
    return next((n for n, text in enumerate(found) if text.startswith(question.answer)), TOP_K)


def within(
    key: str, about: str, places: Sequence[int], first: int, *, at_least: float | None = None
) -> Figure:
    share = sum(place < first for place in places) / len(places)
    return Figure(key=key, about=about, blocks=[share], at_least=at_least)


def main() -> None:
    run(__doc__, measure)
