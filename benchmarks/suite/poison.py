"""A user's statement must stay first, however often others contradict it.

Each case is stated once as a message, by `remember_fact` and by `save_topic`, each by a separate
user. Then a document, a tool, an assistant or another user contradicts it, three times or as often
as the case says, and the question is asked. The cases in `data/poison.yaml` always run, together
with those of `--data`.
"""

import argparse
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Literal

import msgspec
import uvloop

from harness.client import Asker, asking, request_as
from harness.processes import BENCHMARKS, running_stack
from harness.report import Figure, print_figures

OWN = BENCHMARKS / "data" / "poison.yaml"
MALLORY = "mallory"
FORMS = "message", "remember_fact", "save_topic"

Channel = Literal["document", "tool_output", "assistant", "other_user"]


class Case(msgspec.Struct, frozen=True, kw_only=True):
    """A case; `expected` is part of the statement, and of nothing else."""

    stated: str
    attack: str
    channel: Channel
    question: str
    expected: str
    times: int = 3


class Cases(msgspec.Struct, frozen=True, kw_only=True):
    name: str
    cases: list[Case]


class Outcome(msgspec.Struct, frozen=True, kw_only=True):
    case: Case
    form: str
    first: str

    @property
    def held(self) -> bool:
        return self.case.expected in self.first


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--data", type=Path, metavar="FILE", help="further cases, as JSON")
    parser.add_argument("--json", action="store_true", help="print one JSON object")
    chosen = parser.parse_args()
    sets = [msgspec.yaml.decode(OWN.read_bytes(), type=Cases)]
    if chosen.data is not None:
        sets.append(msgspec.json.decode(chosen.data.read_bytes(), type=Cases))
    outcomes = uvloop.run(measure([case for each in sets for case in each.cases]))
    figures = figures_of(outcomes)
    print_figures(__doc__, figures, as_json=chosen.json)
    for one in outcomes:
        if not one.held and not chosen.json:
            print(f"{one.case.channel}, {one.form}: {one.case.question} {one.first!r}")


async def measure(cases: Sequence[Case]) -> list[Outcome]:
    asked = [(case, form, f"{form} {n}") for n, case in enumerate(cases) for form in FORMS]
    with tempfile.TemporaryDirectory() as folder:
        async with running_stack(Path(folder)) as url, asking(url) as asker:
            for case, form, user in asked:
                await state(asker, form, user, case)
            for case, form, user in asked:
                for time in range(case.times):
                    await attack(asker, case, user, f"{form} {time}")
            await asker.all_done()
            return [
                Outcome(case=case, form=form, first=await first(asker, user, case))
                for case, form, user in asked
            ]


async def state(asker: Asker, form: str, user: str, case: Case) -> None:
    if form == "message":
        await say(asker, user, "stated", {"role": "user", "content": case.stated})
    elif form == "remember_fact":
        request = request_as(user, content=case.stated, scope="user")
        await asker.tool("remember_fact", request)
    else:
        await asker.tool("save_topic", request_as(user, topic="user.note", content=case.stated))


async def attack(asker: Asker, case: Case, user: str, time: str) -> None:
    """Contradict the statement; documents and facts for everybody are visible to all users."""
    if case.channel == "document":
        request = request_as(MALLORY, content=case.attack, title=f"Notice {user} {time}")
        await asker.tool("add_document", request)
    elif case.channel == "other_user":
        fact = request_as(MALLORY, content=case.attack, scope="tenant")
        await asker.tool("remember_fact", fact)
    else:
        await say(asker, user, f"attack {time}", *_said(case))


def _said(case: Case) -> list[dict[str, object]]:
    if case.channel == "assistant":
        return [{"role": "assistant", "content": case.attack}]
    call = {"id": "c1", "type": "function", "function": {"name": "lookup", "arguments": "{}"}}
    return [
        {"role": "assistant", "content": "", "tool_calls": [call]},
        {"role": "tool", "tool_call_id": "c1", "name": "lookup", "content": case.attack},
    ]


async def say(asker: Asker, user: str, session: str, *messages: dict[str, object]) -> None:
    request = request_as(user, messages=messages, session_id=f"{user} {session}")
    await asker.tool("ingest", request)


async def first(asker: Asker, user: str, case: Case) -> str:
    found = await asker.recall(case.question, user=user)
    return found[0].content if found else ""


def figures_of(outcomes: Sequence[Outcome]) -> list[Figure]:
    figures = []
    for form in ("held", *FORMS):
        held = [one.held for one in outcomes if form in {"held", one.form}]
        about = "stated first" if form == "held" else f"stated by {form}"
        share = sum(held) / max(len(held), 1)
        figures.append(Figure(key=form, about=about, blocks=[share], at_least=1.0))
    return figures
