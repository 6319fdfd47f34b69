"""Limits what a memory asks of models by itself.

Each message, fact and question can be a reason to ask one. Its calls and tokens have a maximum by
day, and a model that fails is not asked for a while. The caller then does without the model, at
once.
"""

import asyncio
from datetime import UTC, date, datetime, timedelta
from pathlib import Path
from typing import Self, TypeVar

import msgspec
import structlog
from msgspec import Struct

from local2.atomic_file import PRIVATE_FILE, write_atomically
from local2.background import Backoff
from local2.errors import ModelError, ModelPausedError, ModelRefusedError
from local2.llm.models import CountingModel
from local2.protocol.envelope import Clock, utc_now

FIRST_PAUSE, LONGEST_PAUSE = 1.0, 300.0
"""Seconds for which a model is not asked after its first failure, and at most: every trial may cost
a search the time that it waits for a model."""

T = TypeVar("T", bound=Struct)

log = structlog.get_logger()


class Used(Struct, frozen=True, kw_only=True):
    """What was used on one day (UTC)."""

    day: date
    calls: int = 0
    tokens: int = 0


class ModelBudget:
    """The calls and tokens that a tenant's memory may use in a day; 0 means any number.

    They are counted in a file, because a stack may be started many times a day.
    """

    def __init__(self, file: Path, *, calls: int, tokens: int) -> None:
        self.calls = calls
        self.tokens = tokens
        self.clock: Clock = utc_now
        self._file = file
        self._used = Used(day=date.min)
        self._reported: date | None = None
        """The last day on which the log said that the budget was used up."""
        self._writing = asyncio.Lock()

    @classmethod
    async def open(cls, file: Path, *, calls: int, tokens: int) -> Self:
        """Continue the count of a file, or begin a new one if it is missing or damaged."""
        budget = cls(file, calls=calls, tokens=tokens)
        try:
            budget._used = msgspec.json.decode(await asyncio.to_thread(file.read_bytes), type=Used)
        except FileNotFoundError:
            pass
        except (OSError, msgspec.MsgspecError) as error:
            log.warning("model_budget_unreadable", reason=type(error).__name__)
        return budget

    @property
    def used(self) -> Used:
        """What was used today."""
        today = self.clock().astimezone(UTC).date()
        return self._used if self._used.day == today else Used(day=today)

    @property
    def problem(self) -> str | None:
        """Why no model is asked until tomorrow; None while something is left."""
        used = self.used
        for count, limit, unit in (
            (used.calls, self.calls, "calls"),
            (used.tokens, self.tokens, "tokens"),
        ):
            if limit and count >= limit:
                return f"The {limit:,} {unit} of the day are used up; it ends at 00:00 UTC."
        return None

    def begin_call(self) -> None:
        """Count a call.

        Raises:
            ModelPausedError: The budget is used up.
        """
        used = self.used
        if (problem := self.problem) is not None:
            if self._reported != used.day:
                self._reported = used.day
                log.warning("model_budget_used_up", reason=problem)
            raise ModelPausedError(problem)
        self._used = msgspec.structs.replace(used, calls=used.calls + 1)

    def add_tokens(self, read: int, written: int) -> None:
        """Count the tokens of an answer; a server might report negative numbers."""
        used = self.used
        tokens = used.tokens + max(read, 0) + max(written, 0)
        self._used = msgspec.structs.replace(used, tokens=tokens)

    async def save(self) -> None:
        """Write the count to its file."""
        async with self._writing:
            try:
                await asyncio.to_thread(self._write, msgspec.json.encode(self._used))
            except OSError as error:  # it goes on counting in memory
                log.warning("model_budget_not_saved", reason=type(error).__name__)

    def _write(self, used: bytes) -> None:
        self._file.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        write_atomically(self._file, used, mode=PRIVATE_FILE)


class BudgetedModel:
    """A model that the memory asks for one purpose: a StructuredModel within a budget.

    Purposes differ in how long they wait, so one that is in a hurry pauses without the others.
    """

    def __init__(self, model: CountingModel, budget: ModelBudget) -> None:
        self.name = model.name
        self._model = model
        self._budget = budget
        self._backoff = Backoff(FIRST_PAUSE, LONGEST_PAUSE)
        self._failure: str | None = None
        """Why the last call failed; None after a success."""
        self._failed_at = self._asked_again_at = datetime.min.replace(tzinfo=UTC)
        self._is_trying = False
        """Whether the model is asked again after a failure."""

    @property
    def problem(self) -> str | None:
        """Why the model does not answer at present, None if it does as far as is known."""
        return self._budget.problem or self._failure

    async def answer_as(
        self, into: type[T], *, instruction: str, material: Struct, within: float
    ) -> T:
        """Ask the model; see `StructuredModel`.

        Raises:
            ModelPausedError: It is not asked, because it failed or the budget is used up.
            ModelError: It failed.
            ModelRefusedError: It refused this request.
        """
        if self._failure is not None and (self._is_trying or self._pauses):
            raise ModelPausedError(f"{self.name} failed, and is asked again later: {self._failure}")
        self._budget.begin_call()
        is_trial = self._is_trying = self._failure is not None
        try:
            answer = await self._model.answer_as(
                into,
                instruction=instruction,
                material=material,
                within=within,
                spend=self._budget.add_tokens,
            )
        except ModelRefusedError:
            self._note_success()
            raise
        except ModelError as error:
            # Of calls that were made together, the first failure counts.
            if self._failure is None or not self._pauses:
                pause = max(self._backoff.next_pause(), error.retry_after or 0.0)
                self._failed_at = self._budget.clock()
                self._asked_again_at = self._failed_at + timedelta(seconds=pause)
                self._failure = error.logged
                log.warning("model_paused", model=self.name, seconds=pause, reason=error.logged)
            raise
        else:
            self._note_success()
            return answer
        finally:
            if is_trial:
                self._is_trying = False
            await self._budget.save()

    @property
    def _pauses(self) -> bool:
        # Before the failure: the clock was set back since.
        return self._failed_at <= self._budget.clock() < self._asked_again_at

    def _note_success(self) -> None:
        if self._failure is not None:
            log.info("model_answers_again", model=self.name)
        self._failure = None
        self._backoff.reset()
