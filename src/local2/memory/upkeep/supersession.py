"""Retire facts that newer ones contradict, after the newer ones were acknowledged.

A model judges. While the model or the vectors are out of reach, facts wait. If the model is in
doubt, nothing is retired.
"""

from collections.abc import Sequence
from datetime import datetime
from typing import Literal

import structlog
from msgspec import Struct

from local2.errors import ModelRefusedError, VectorError
from local2.ledger.ledger import Ledger
from local2.ledger.records import Record, Task
from local2.ledger.search import Place, Search
from local2.llm.models import StructuredModel
from local2.memory.backlog import Job
from local2.memory.changes import Changes
from local2.memory.recall.query import analyse
from local2.memory.recall.recaller import Closeness, Retrieval
from local2.memory.scopes import may_retire

AGENT = "contradiction_judge"
"""The agent in the audit trail."""
Verdict = Literal["replaces", "supports", "unrelated"]
MAX_FACT = 2_000
"""Maximum characters of a fact that is judged: a longer one would have to be cut."""
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
    """Has new facts judged, oldest first, because each may replace the previous one."""

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
        """Compare facts with older ones, and store the verdicts."""
        for fact in await self._ledger.records.at([task.row for task in tasks]):
            query = analyse(fact.content, fact.event_time)
            search = Search(
                text=query.text,
                terms=query.terms,
                phrases=query.phrases,
                topics=query.topics,
                places=(Place(fact.scope, fact.owner, "fact"),),
            )
            older = await self._retrieval.nearest(search, self._closeness, before=fact.row)
            if older is None:
                raise VectorError("Some facts have no vector yet.")
            verdicts: Sequence[Verdict] = []
            if older:
                try:
                    verdicts = await self._judge.verdicts(fact, older)
                except ModelRefusedError as error:
                    log.warning("fact_not_judged", id=fact.id, reason=str(error))
                    verdicts = ["unrelated"] * len(older)
            judged = list(zip(older, verdicts, strict=True))
            outdated = [older_fact for older_fact, verdict in judged if verdict == "replaces"]
            replaced = await self._ledger.facts.judge(
                fact,
                supports=[older_fact for older_fact, verdict in judged if verdict == "supports"],
                replaces=[older_fact for older_fact in outdated if may_retire(fact, older_fact)],
                contradicts=[
                    older_fact for older_fact in outdated if not may_retire(fact, older_fact)
                ],
                agent=AGENT,
            )
            for record in replaced:
                log.info("fact_superseded", id=record.id, superseded_by=fact.id)
                self._changes.replaced(record.id, fact)


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
        """`within`: maximum seconds for the verdicts on one fact."""
        self._model = model
        self._within = within

    async def verdicts(self, fact: Record, older: Sequence[Record]) -> list[Verdict]:
        """Judge each older fact, in their order.

        Facts that are too long to be judged are unrelated.

        Raises:
            ModelError: The model is out of reach or too slow; a retry may succeed.
            ModelRefusedError: The model gives no verdict on these facts; a retry will not help.
        """
        asked = {
            number: record
            for number, record in enumerate(older, start=1)
            if max(len(fact.content), len(record.content)) <= MAX_FACT
        }
        given: dict[int, set[Verdict]] = {number: set() for number in range(1, len(older) + 1)}
        if asked:
            comparison = _Comparison(
                new=_Fact(said=fact.event_time, text=fact.content),
                older=[
                    _OlderFact(number=number, said=record.event_time, text=record.content)
                    for number, record in asked.items()
                ],
            )
            answer = await self._model.answer_as(
                _Findings, instruction=INSTRUCTION, material=comparison, within=self._within
            )
            for finding in answer.verdicts:
                if finding.number in asked:
                    given[finding.number].add(finding.verdict)
        return [  # two verdicts on one fact are none
            next(iter(verdicts)) if len(verdicts) == 1 else "unrelated"
            for verdicts in given.values()
        ]
