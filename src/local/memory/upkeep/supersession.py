"""Retires facts that newer ones contradict, after the newer ones have been acknowledged.

While the model or the vectors are out of reach, facts wait to be judged; where a model is in doubt,
nothing is retired.
"""

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Literal

import structlog
from msgspec import Struct

from local.errors import ModelRefusedError, VectorError
from local.ledger.door import Ledger
from local.ledger.records import Record, Task
from local.ledger.search import Place, Search
from local.llm.models import StructuredModel
from local.memory.changes import Changes
from local.memory.recall.query import analyse
from local.memory.recall.recaller import Closeness, Retrieval
from local.memory.scopes import may_retire
from local.memory.upkeep.backlog import Job

AGENT = "contradiction_judge"
Verdict = Literal["replaces", "supports", "unrelated"]
LONGEST = 2_000
"""Characters of a fact that is compared; of a longer one only a part could be shown."""
INSTRUCTION = """\
You keep a memory free of outdated facts. You are given a new fact and older facts with numbers; \
`said` is when each was said. Give a verdict on every older fact:
- "replaces": both say something about the same thing, and the new fact contradicts or updates \
the older one, so that the older one is no longer true.
- "supports": both are about the same thing, and both can be true.
- "unrelated": they are about different persons or things, or you cannot tell.
"We moved to Rome" replaces "We live in Berlin". "I like tea" supports "I like coffee". A plan, a \
wish, a question or a guess replaces nothing. A further detail replaces nothing. If you have any \
doubt that the older fact is no longer true, it is not "replaces"."""

log = structlog.get_logger()


class Supersession(Job):
    """Judges new facts, the oldest first: each replaces the one before it."""

    name = "judging"
    kinds = ("judge",)

    def __init__(
        self,
        ledger: Ledger,
        retrieval: Retrieval,
        changes: Changes,
        judge: "Judge",
        closeness: Closeness,
    ) -> None:
        self._ledger = ledger
        self._retrieval = retrieval
        self._changes = changes
        self._judge = judge
        self._closeness = closeness

    async def do(self, tasks: Sequence[Task]) -> None:
        """Compare facts with older ones; what the model refuses to judge stays as it is."""
        for fact in await self._ledger.records.at([task.row for task in tasks]):
            older = await self._nearest(fact)
            verdicts = await self._verdicts(fact, older)
            both = list(zip(older, verdicts, strict=True))
            against = [one for one, verdict in both if verdict == "replaces"]
            replaced = await self._ledger.facts.judge(
                fact,
                supports=[one for one, verdict in both if verdict == "supports"],
                replaces=[one for one in against if may_retire(fact, one)],
                contradicts=[one for one in against if not may_retire(fact, one)],
                agent=AGENT,
            )
            for record in replaced:
                log.info("fact_superseded", id=record.id, superseded_by=fact.id)
                self._changes.replaced(record.id, fact)

    async def _verdicts(self, fact: Record, older: Sequence[Record]) -> Sequence["Verdict"]:
        try:
            return await self._judge.verdicts(fact, older) if older else []
        except ModelRefusedError as error:
            log.warning("fact_not_judged", id=fact.id, reason=str(error))
            return ["unrelated"] * len(older)

    async def _nearest(self, fact: Record) -> list[Record]:
        """Return the nearest older facts of the same owner.

        Raises:
            VectorError: Some of them have no vector yet, or the vectors cannot be searched.
        """
        query = analyse(fact.content, fact.event_time)
        search = Search(
            text=query.text,
            terms=query.terms,
            phrases=query.phrases,
            topics=query.topics,
            places=(Place(fact.scope, fact.owner, "fact"),),
        )
        nearest = await self._retrieval.nearest(search, self._closeness, before=fact.row)
        if nearest is None:
            raise VectorError("Facts wait for their vectors.")
        return nearest


class _Fact(Struct, frozen=True, kw_only=True):
    said: datetime
    text: str


class _OlderFact(_Fact, frozen=True, kw_only=True):
    number: int


class _Comparison(Struct, frozen=True, kw_only=True):
    new: _Fact
    older: list[_OlderFact]


class _Finding(Struct, frozen=True, kw_only=True):
    number: int
    verdict: Verdict


class _Findings(Struct, frozen=True, kw_only=True):
    verdicts: list[_Finding]


class Judge:
    def __init__(self, model: StructuredModel, *, within: float) -> None:
        """`within`: seconds for the verdicts on one fact."""
        self._model = model
        self._within = within

    async def verdicts(self, fact: Record, older: Sequence[Record]) -> list[Verdict]:
        """Return one verdict for each older fact, in their order.

        Texts too long to be shown count as unrelated.

        Raises:
            ModelError: The model is out of reach or too slow; it may answer later.
            ModelRefusedError: It has no verdict on these, and will have none later.
        """
        asked = {
            number: record
            for number, record in enumerate(older, start=1)
            if _comparable(fact, record)
        }
        findings = await self._findings(fact, asked) if asked else []
        given: dict[int, set[Verdict]] = {number: set() for number in range(1, len(older) + 1)}
        for finding in findings:
            if finding.number in asked:
                given[finding.number].add(finding.verdict)
        return [_agreed(verdicts) for verdicts in given.values()]

    async def _findings(self, fact: Record, older: Mapping[int, Record]) -> list[_Finding]:
        comparison = _Comparison(
            new=_Fact(said=fact.event_time, text=fact.content),
            older=[
                _OlderFact(number=number, said=record.event_time, text=record.content)
                for number, record in older.items()
            ],
        )
        answer = await self._model.answer_as(
            _Findings, instruction=INSTRUCTION, material=comparison, within=self._within
        )
        return answer.verdicts


def _comparable(fact: Record, older: Record) -> bool:
    longest = max(len(fact.content), len(older.content))
    return longest <= LONGEST


def _agreed(verdicts: set[Verdict]) -> Verdict:
    """Return the verdict, unless there is none or more than one."""
    return next(iter(verdicts)) if len(verdicts) == 1 else "unrelated"
