"""`local2 chat`, `ask`, `tools` and `call`: talk to the GeneratorAgent, and call tools."""

import asyncio
import signal
import sys
from collections.abc import Callable, Sequence
from contextlib import AbstractAsyncContextManager, AsyncExitStack

import click
import msgspec
from rich.table import Table

from local2.cli.answers import NAME, answer_on, fail
from local2.cli.commands import (
    asked_by_caller,
    command,
    session_option,
    user_option,
    words_argument,
)
from local2.cli.output import FAILED, Output, printable, shown, styled, uncut
from local2.client import Connection
from local2.client.access import connected
from local2.client.queries import QueryClient
from local2.client.tools import Toolbox
from local2.errors import InvalidArgumentsError, Local2Error
from local2.home import asking_user
from local2.protocol.envelope import Sender, new_id
from local2.protocol.payloads import Json, ToolCallRecord
from local2.settings import Settings

HELP = (
    "/new: a new session. /tools: what the last answer used. Ctrl-C: stop an answer. "
    "/quit or Ctrl-D: end."
)
PROMPT = [("bold ansicyan", "you> ")]
SCHEMA_SECONDS = 0.5
"""Seconds to wait for a tool's announcement. Without its schema, all arguments are sent as text."""


@command()
@words_argument("text", "The question.")
@session_option
@user_option
async def ask(
    settings: Settings, output: Output, *, text: str, session: str | None, user: str | None
) -> None:
    if not text.strip():  # the GeneratorAgent refuses it in words of the bus
        raise InvalidArgumentsError("The question is blank.")
    user = asking_user(settings.bus, user)
    caller = Sender(agent=NAME, user=user, session_id=session or new_id())
    async with (
        connected(settings, name=NAME, user=caller.user) as bus,
        QueryClient(bus) as queries,
    ):
        turn = await queries.ask(text, caller=caller)
    output.data(turn)
    if turn.answer:
        output.text(turn.answer)
    if turn.hint:
        output.line(styled(turn.hint, dim=True), error=True)
    if turn.error is None:
        return
    output.failure(turn.error.message)
    raise click.exceptions.Exit(FAILED)


@command(json=False)
@session_option
@user_option
async def chat(settings: Settings, _: Output, *, session: str | None, user: str | None) -> None:
    if not sys.stdin.isatty():  # the line editor would draw the prompt into a pipe
        raise InvalidArgumentsError(
            "A chat needs a terminal.", remedy="`local2 ask QUESTION` asks without one."
        )
    await chatting(settings, session=session, user=asking_user(settings.bus, user))


async def chatting(
    settings: Settings, *, session: str | None = None, user: str | None = None
) -> None:
    """Connect with the settings' credentials, and chat; with the next stack if one has ended.

    Raises:
        StackNotRunningError: No other stack runs.
    """

    def connect() -> AbstractAsyncContextManager[Connection]:
        return connected(settings, name=NAME, user=user)

    async with connect() as bus:
        await converse(bus, Output(), session=session, user=user, reconnect=connect)


async def converse(
    bus: Connection,
    output: Output,
    *,
    session: str | None = None,
    user: str | None = None,
    reconnect: Callable[[], AbstractAsyncContextManager[Connection]] | None = None,
) -> None:
    """Read lines and print answers until Ctrl-D, /quit, or Ctrl-C where nothing is typed.

    During an answer, Ctrl-C stops the answer. `reconnect`: used if the server is lost.
    """
    # Imported here because only a chat needs a line editor.
    from prompt_toolkit import PromptSession  # noqa: PLC0415
    from prompt_toolkit.formatted_text import FormattedText  # noqa: PLC0415

    prompt: PromptSession[str] = PromptSession(FormattedText(PROMPT))
    session_id = session or new_id()
    calls: list[ToolCallRecord] = []
    hints: set[str] = set()
    output.console.print(f"[dim]{HELP}[/]")
    async with AsyncExitStack() as connection:
        queries = await connection.enter_async_context(QueryClient(bus))
        while True:
            try:
                line = (await prompt.prompt_async()).strip()
            except EOFError:
                return
            except KeyboardInterrupt:
                if prompt.default_buffer.text.strip():
                    continue  # as in a shell, it leaves the line
                return
            word = line.partition(" ")[0]
            if word == "/quit":
                return
            if word == "/new":
                session_id = new_id()
                output.console.print("[dim]A new session.[/]")
            elif word == "/tools":
                for call in calls:
                    arguments = ", ".join(f"{key}={value!r}" for key, value in call.args.items())
                    mark = "" if call.ok else " [red](failed)[/]"
                    called = f"{shown(call.name)}({shown(arguments)})"
                    output.console.print(f"[dim]  ↳ {called}[/]{mark}")
                if not calls:
                    output.console.print("[dim]The last answer used no tools.[/]")
            elif line in {"/help", "/?"}:
                output.console.print(f"[dim]{HELP}[/]")
            elif line == word and line.startswith("/") and "/" not in line[1:]:
                # A mistyped command is not remembered.
                output.console.print(f"[dim]There is no command {shown(line)}. {HELP}[/]")
            elif line:
                if bus.lost.is_set() and reconnect is not None:
                    await connection.aclose()
                    bus = await connection.enter_async_context(reconnect())
                    queries = await connection.enter_async_context(QueryClient(bus))
                caller = Sender(agent=NAME, user=user, session_id=session_id)
                calls = await _turn(queries, output, line, caller, hints)


async def _turn(
    queries: QueryClient, output: Output, line: str, caller: Sender, hints: set[str]
) -> list[ToolCallRecord]:
    """Ask, and show the answer; return the calls of tools that it is based on.

    `hints` are those that were shown; each is shown once.
    """
    console = output.console
    console.print("[bold green]local2>[/] ", end="")

    def show(text: str) -> None:
        console.print(printable(text), end="", markup=False)

    loop, task = asyncio.get_running_loop(), asyncio.current_task()
    answering = asyncio.create_task(queries.ask(line, caller=caller, on_delta=show))

    def stop(*_: object) -> None:
        loop.call_soon_threadsafe(answering.cancel)

    # A handler of the loop would not outlive the next prompt, which sets and removes its own.
    before = signal.signal(signal.SIGINT, stop)
    try:
        turn = await answering
    except asyncio.CancelledError:
        if task is not None and task.cancelling():
            raise
        console.print(" [dim](stopped)[/]")
        return []
    except Local2Error as error:
        console.print()
        output.error(error)
        return []
    finally:
        signal.signal(signal.SIGINT, before)
    console.print()
    if turn.hint not in {"", *hints}:
        hints.add(turn.hint)
        console.print(f"[dim]        {shown(turn.hint)}[/]")
    if turn.error is not None:
        output.errors.print(f"[bold red]Error:[/] {shown(turn.error.message)}")
    return turn.tool_calls


@command("tools")
async def list_tools(settings: Settings, output: Output) -> None:
    async with connected(settings, name=NAME) as bus, Toolbox(bus, source=NAME) as box:
        schemas = await box.settle()
    output.data(schemas)
    table = Table("Tool", "Arguments", uncut("When to call it"))
    for schema in schemas:
        parameters = schema.tool_schema.function.parameters
        required = parameters.get("required", [])
        names = [
            name if name in required else f"[{name}]" for name in parameters.get("properties", {})
        ]
        table.add_row(*map(shown, (schema.name, "\n".join(names), schema.description)))
    output.table(table)


@command()
@click.argument("tool")
@click.argument("arguments", metavar="KEY=VALUE…", nargs=-1, help="The tool's arguments.")
@asked_by_caller(session="Call it in this session.")
async def call(
    settings: Settings, output: Output, *, tool: str, arguments: Sequence[str], caller: Sender
) -> None:
    async with connected(settings, name=NAME, user=caller.user) as bus:
        async with Toolbox(bus, source=NAME) as box:
            schema = await box.find(tool, within=SCHEMA_SECONDS)
        parameters = schema.tool_schema.function.parameters if schema is not None else {}
        result = await answer_on(bus, tool, parsed(arguments, parameters), caller)
    if result.error is not None:
        fail(result, result.error, output)
    output.data(result)
    output.text(result.content)


def parsed(arguments: Sequence[str], schema: Json) -> Json:
    """Parse `key=value` words into arguments with the types of the tool's schema.

    The tool itself validates them.

    Raises:
        InvalidArgumentsError: A word has no `=`, or a value that must be JSON is not.
    """
    args: Json = {}
    for argument in arguments:
        key, equals, value = argument.partition("=")
        if not equals:
            raise InvalidArgumentsError(
                f"{argument!r} is not KEY=VALUE.",
                remedy="Write, for example, topic=user.name content=Richard",
            )
        declared = schema.get("properties", {}).get(key)
        kind = declared.get("type", "string") if isinstance(declared, dict) else "string"
        try:
            args[key] = value if kind == "string" else msgspec.json.decode(value)
        except msgspec.DecodeError as error:
            raise InvalidArgumentsError(
                f"{key}: {value!r} is not a JSON value.",
                remedy=f"Write its {kind} as JSON, for example 5, true or '[\"user.name\"]'.",
            ) from error
    return args
