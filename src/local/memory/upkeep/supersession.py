"""Retires facts that newer ones contradict, after the newer ones have been acknowledged.

Facts wait in the ledger until they are judged, so a restart forgets none. While the model or the
vectors are missing they go on waiting; where a model is in doubt, nothing is retired.
"""

import asyncio
from collections.abc import Mapping, Sequence
from contextlib import suppress
from datetime import datetime
from typing import Literal

import structlog
from msgspec import Struct

from local.errors import Local2Error, ModelError, ModelRefusedError
from local.ledger.door import Ledger
from local.ledger.records import Record
from local.ledger.search import Place, Search
from local.llm.models import StructuredModel
from local.memory.changes import Changes
from local.memory.recall.query import analyse
from local.memory.recall.retrieval import Closeness, Retrieval

AGENT = "contradiction_judge"
TOGETHER = 20
FIRST_RETRY = 0.2
LAST_RETRY = 60.0

log = structlog.get_logger()


class Supersession:
    """Judges new facts while `run` runs; `wake` it after each."""

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
        self._work = asyncio.Event()

    def wake(self) -> None:
        """A fact has been written."""
        self._work.set()

    async def run(self) -> None:
        """Judge until cancelled."""
        delay = FIRST_RETRY
        self._work.set()
        while True:
            await self._work.wait()
            self._work.clear()
            try:
                done = await self._catch_up()
            except Local2Error as error:
                log.warning("judging_delayed", reason=str(error))
                done = False
            if done:
                delay = FIRST_RETRY
                continue
            with suppress(TimeoutError):
                async with asyncio.timeout(delay):
                    await self._work.wait()
            delay = min(delay * 2, LAST_RETRY)
            self._work.set()

    async def _catch_up(self) -> bool:
        """Judge whatever can be judged now; False if some of it has to be tried again."""
        after, whole = 0, True
        while facts := await self._ledger.facts.unjudged(TOGETHER, after=after):
            judged = [await self._judged(fact) for fact in facts]
            whole = whole and all(judged)
            if not any(judged):
                break
            after = facts[-1].row
        return whole

    async def _judged(self, fact: Record) -> bool:
        """False where its vectors are missing, or the model does not answer; others may go on."""
        older = await self._nearest(fact)
        if older is None:
            return False
        try:
            await self._compare(fact, older)
        except ModelError as error:
            log.warning("judging_delayed", id=fact.id, reason=str(error))
            return False
        await self._ledger.facts.judged(fact.id)
        return True

    async def _compare(self, fact: Record, older: list[Record]) -> None:
        try:
            verdicts = await self._judge.verdicts(fact, older) if older else []
        except ModelRefusedError as error:
            log.warning("fact_not_judged", id=fact.id, reason=str(error))
            return
        for record, verdict in zip(older, verdicts, strict=True):
            if verdict == "supports":
                await self._ledger.facts.relate(fact.id, "supports", record.id)
            elif verdict == "replaces" and await self._ledger.facts.retire(
                record, fact, agent=AGENT
            ):
                log.info("fact_superseded", id=record.id, superseded_by=fact.id)
                await self._changes.replaced(record.id, fact)

    async def _nearest(self, fact: Record) -> list[Record] | None:
        """The older facts of the same owner that are closest; None while some have no vector."""
        query = analyse(fact.content, fact.event_time)
        search = Search(
            text=query.text,
            terms=query.terms,
            phrases=query.phrases,
            topics=query.topics,
            places=(Place(fact.scope, fact.owner, "fact"),),
        )
        return await self._retrieval.nearest(search, self._closeness, before=fact.row)


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
        """One verdict for each older fact, in their order.

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
    """The verdict, unless there is none or more than one."""
    return next(iter(verdicts)) if len(verdicts) == 1 else "unrelated"
