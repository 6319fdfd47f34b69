"""`local2 chat` and `local2 ask`: talking to the GeneratorAgent over the bus."""

import sys

from prompt_toolkit import PromptSession
from prompt_toolkit.formatted_text import FormattedText

from local.cli.answers import NAME
from local.cli.output import FAILED, Output, printable, run_async, shown
from local.client import Connection
from local.client.access import connected
from local.client.queries import QueryClient
from local.errors import Local2Error
from local.protocol.envelope import Sender, new_id
from local.protocol.payloads import Generation
from local.settings import Settings

HELP = "/new starts a new session, /quit (or Ctrl-D) ends the chat."
PROMPT = FormattedText([("bold ansicyan", "you> ")])


def ask(
    settings: Settings, output: Output, text: str, *, session: str | None, user: str | None
) -> None:
    caller = Sender(agent=NAME, user=user, session_id=session or new_id())
    turn = run_async(_ask(settings, text, caller))
    output.data(turn)
    if turn.answer:
        output.text(turn.answer)
    if turn.error is None:
        return
    output.failure(turn.error.message)
    sys.exit(FAILED)


async def _ask(settings: Settings, text: str, caller: Sender) -> Generation:
    async with (
        connected(settings, name=NAME, user=caller.user) as bus,
        QueryClient(bus) as queries,
    ):
        return await queries.ask(text, caller=caller)


def chat(settings: Settings, *, session: str | None, user: str | None) -> None:
    run_async(chatting(settings, session=session, user=user))


async def chatting(
    settings: Settings, *, session: str | None = None, user: str | None = None
) -> None:
    """Connect as the settings say, and chat."""
    async with connected(settings, name=NAME, user=user) as bus:
        await converse(bus, Output(), session=session, user=user)


async def converse(
    bus: Connection, output: Output, *, session: str | None = None, user: str | None = None
) -> None:
    """Read lines and print answers until Ctrl-D, Ctrl-C or /quit."""
    prompt: PromptSession[str] = PromptSession()
    session_id = session or new_id()
    output.console.print(f"[dim]{HELP}[/]")
    async with QueryClient(bus) as queries:
        while True:
            try:
                line = (await prompt.prompt_async(PROMPT)).strip()
            except (EOFError, KeyboardInterrupt):
                return
            if line == "/quit":
                return
            if line == "/new":
                session_id = new_id()
                output.console.print("[dim]A new session.[/]")
            elif line:
                caller = Sender(agent=NAME, user=user, session_id=session_id)
                await _turn(queries, output, line, caller)


async def _turn(queries: QueryClient, output: Output, line: str, caller: Sender) -> None:
    console = output.console
    console.print("[bold green]local2>[/] ", end="")
    try:
        turn = await queries.ask(line, caller=caller, on_delta=lambda text: _show(output, text))
    except Local2Error as error:
        console.print()
        output.error(error)
        return
    console.print()
    if turn.error is not None:
        output.errors.print(f"[bold red]Error:[/] {shown(turn.error.message)}")
    for call in turn.tool_calls:
        arguments = ", ".join(f"{key}={value!r}" for key, value in call.args.items())
        mark = "" if call.ok else " [red](failed)[/]"
        console.print(f"[dim]  ↳ {shown(call.name)}({shown(arguments)})[/]{mark}")


def _show(output: Output, text: str) -> None:
    output.console.print(printable(text), end="", markup=False)
