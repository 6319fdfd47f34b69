"""`local2 dead-letters`: list, show, retry and drop messages that the memory could not store."""

from collections.abc import AsyncIterator, Sequence
from datetime import datetime

import click
import msgspec
from rich.table import Column, Table

from local2.cli.answers import NAME, ask_stack, shown_time
from local2.cli.commands import command, user_option
from local2.cli.output import FAILED, Output, shown, uncut
from local2.client import Connection
from local2.client.access import ask_service, connected
from local2.errors import InvalidArgumentsError, RequestError
from local2.protocol.maintenance import LetterAction, LetterRequest, StoredLetter
from local2.protocol.services import DEAD_LETTERS
from local2.settings import Settings


class LetterSummary(msgspec.Struct, frozen=True, kw_only=True):
    """A dead letter without its message. If it is `cut`, it cannot be published again."""

    number: int
    time: datetime
    subject: str
    source: str
    reason: str
    cut: bool

    @classmethod
    def of(cls, stored: StoredLetter) -> "LetterSummary":
        letter = stored.letter
        return cls(
            number=stored.sequence,
            time=stored.at,
            subject=letter.subject,
            source=letter.source,
            reason=letter.reason,
            cut=letter.cut,
        )


class LetterOutcome(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What was done with one dead letter, or why nothing was."""

    number: int
    done: str = ""
    error: str | None = None


group = click.Group("dead-letters", no_args_is_help=True)
numbers_argument = click.argument(
    "numbers", metavar="NUMBER…", nargs=-1, type=int, help="Their numbers, as listed."
)
all_option = click.option("--all", "every", is_flag=True, help="All dead letters.")


@command("list", group=group)
async def list_letters(settings: Settings, output: Output) -> None:
    """List the messages that the memory could not store, and why."""
    async with connected(settings, name=NAME) as bus:
        summaries = [LetterSummary.of(stored) async for stored in _all_letters(bus)]
    output.data(summaries)
    if not summaries:
        output.text("There are no dead letters: every message could be stored.")
        return
    table = Table(
        Column("No.", no_wrap=True),
        Column("Time", no_wrap=True),
        uncut("Subject, source"),
        uncut("Why it could not be stored"),
    )
    for summary in summaries:
        reason = (
            f"{summary.reason} (Cut: it cannot be published again.)"
            if summary.cut
            else summary.reason
        )
        origin = f"{summary.subject}\n{summary.source}"
        table.add_row(*map(shown, (str(summary.number), shown_time(summary.time), origin, reason)))
    output.table(table)


async def _all_letters(bus: Connection) -> AsyncIterator[StoredLetter]:
    """Yield all dead letters, oldest first."""
    number = 0
    while True:
        request = LetterRequest(action="next", number=number + 1)
        found = (await ask_service(bus, DEAD_LETTERS, request)).found
        if found is None:
            return
        number = found.sequence
        yield found


@command(group=group)
@click.argument("number", metavar="NUMBER", type=int, help="Its number, as listed.")
async def show(settings: Settings, output: Output, *, number: int) -> None:
    """Show one dead letter with its message."""
    request = LetterRequest(action="show", number=number)
    stored = (await ask_stack(settings, DEAD_LETTERS, request)).found
    if stored is None:
        raise InvalidArgumentsError(f"There is no dead letter {number}.")
    letter = stored.letter
    output.data(stored)
    output.text(
        f"{letter.subject} from {letter.source or 'an unknown source'}, {shown_time(stored.at)}\n"
        f"{letter.reason}\n\n{letter.message}"
    )
    if letter.cut:
        output.text("\n(Cut: only the beginning was stored.)")


@command(group=group)
@numbers_argument
@all_option
@user_option
async def retry(
    settings: Settings, output: Output, *, numbers: Sequence[int], every: bool, user: str | None
) -> None:
    """Publish messages again, and drop their dead letters once JetStream has stored them.

    With accounts, name the user with --user, because dead letters contain no tokens.
    """
    await _apply(settings, output, "retry", numbers, every=every, user=user)


@command(group=group)
@numbers_argument
@all_option
async def drop(settings: Settings, output: Output, *, numbers: Sequence[int], every: bool) -> None:
    """Remove dead letters for good."""
    await _apply(settings, output, "drop", numbers, every=every)


async def _apply(
    settings: Settings,
    output: Output,
    action: LetterAction,
    numbers: Sequence[int],
    *,
    every: bool,
    user: str | None = None,
) -> None:
    """Retry or drop each letter, even if one fails; if any fails, exit with code 1."""
    if every == bool(numbers):
        raise InvalidArgumentsError("Give either the numbers of dead letters or --all.")
    done = "published again" if action == "retry" else "dropped"

    async def apply_to(bus: Connection, number: int) -> LetterOutcome:
        try:
            await ask_service(bus, DEAD_LETTERS, LetterRequest(action=action, number=number))
        except RequestError as error:
            return LetterOutcome(number=number, error=str(error))
        return LetterOutcome(number=number, done=done)

    async with connected(settings, name=NAME, user=user) as bus:
        chosen = [stored.sequence async for stored in _all_letters(bus)] if every else numbers
        outcomes = [await apply_to(bus, number) for number in chosen]
    output.data(outcomes)
    for outcome in outcomes:
        if outcome.error is None:
            output.text(f"{outcome.number}: {outcome.done}")
        else:
            output.failure(f"{outcome.number}: {outcome.error}")
    if any(outcome.error is not None for outcome in outcomes):
        raise click.exceptions.Exit(FAILED)
