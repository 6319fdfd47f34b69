"""`local2 dead-letters`: what could not be read, why, and what becomes of it."""

import sys
from collections.abc import Awaitable, Callable, Sequence
from datetime import datetime

import msgspec
from rich.table import Table

from local.cli.answers import shown_time
from local.cli.output import FAILED, Output, run_async, shown
from local.client import Connection, connect
from local.client.maintenance import StoredLetter, letter_at, letters, publish_again
from local.client.maintenance import drop as drop_letter
from local.errors import InvalidArgumentsError, RequestError
from local.runtime import running_url
from local.settings import Settings

NAME = "cli"


class Listed(msgspec.Struct, frozen=True, kw_only=True):
    """A letter without its message; `cut`: that cannot be published again."""

    number: int
    time: datetime
    subject: str
    source: str
    reason: str
    cut: bool

    @classmethod
    def of(cls, stored: StoredLetter) -> "Listed":
        letter = stored.letter
        return cls(
            number=stored.sequence,
            time=stored.at,
            subject=letter.subject,
            source=letter.source,
            reason=letter.reason,
            cut=letter.cut,
        )


class Dealt(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What became of one letter, or why nothing did."""

    number: int
    done: str = ""
    error: str | None = None


def list_letters(settings: Settings, output: Output) -> None:
    async def read() -> list[Listed]:
        async with connect(running_url(settings), name=NAME) as bus:
            return [Listed.of(stored) async for stored in letters(bus)]

    found = run_async(read())
    output.data(found)
    if not found:
        output.text("Every message could be read.")
        return
    table = Table()
    table.add_column("No.", no_wrap=True)
    table.add_column("Time", no_wrap=True)
    table.add_column("Subject, source", overflow="fold")
    table.add_column("Why it could not be read", overflow="fold")
    for one in found:
        reason = f"{one.reason} (Cut: it cannot be published again.)" if one.cut else one.reason
        whence = f"{one.subject}\n{one.source}"
        table.add_row(*map(shown, (str(one.number), shown_time(one.time), whence, reason)))
    output.table(table)


def show(settings: Settings, output: Output, number: int) -> None:
    async def read() -> StoredLetter:
        async with connect(running_url(settings), name=NAME) as bus:
            return await letter_at(bus, number)

    stored = run_async(read())
    letter = stored.letter
    output.data(stored)
    output.text(
        f"{letter.subject} from {letter.source or 'an unknown source'}, {shown_time(stored.at)}\n"
        f"{letter.reason}\n\n{letter.message}"
    )
    if letter.cut:
        output.text("\n(Cut: only the beginning was kept.)")


def retry(settings: Settings, output: Output, numbers: Sequence[int], *, every: bool) -> None:
    _deal(settings, output, numbers, every=every, how=publish_again, done="published again")


def drop(settings: Settings, output: Output, numbers: Sequence[int], *, every: bool) -> None:
    async def remove(bus: Connection, stored: StoredLetter) -> None:
        await drop_letter(bus, stored.sequence)

    _deal(settings, output, numbers, every=every, how=remove, done="dropped")


def _deal(  # noqa: PLR0913 - what both commands have in common
    settings: Settings,
    output: Output,
    numbers: Sequence[int],
    *,
    every: bool,
    how: Callable[[Connection, StoredLetter], Awaitable[None]],
    done: str,
) -> None:
    """Do it to each letter, whatever becomes of the others; exit 1 if one is left."""
    if every == bool(numbers):
        raise InvalidArgumentsError("Name letters by their numbers, or all of them with --all.")

    async def deal_with(bus: Connection, number: int) -> Dealt:
        try:
            await how(bus, await letter_at(bus, number))
        except RequestError as error:
            return Dealt(number=number, error=str(error))
        return Dealt(number=number, done=done)

    async def deal() -> list[Dealt]:
        async with connect(running_url(settings), name=NAME) as bus:
            wanted = [one.sequence async for one in letters(bus)] if every else numbers
            return [await deal_with(bus, number) for number in wanted]

    dealt = run_async(deal())
    output.data(dealt)
    for one in dealt:
        if one.error is None:
            output.text(f"{one.number}: {one.done}")
        else:
            output.failure(f"{one.number}: {one.error}")
    if any(one.error is not None for one in dealt):
        sys.exit(FAILED)
