"""Declare commands: each is a function with `@command()`, and is imported when it is called.

The options that several commands share are here, and those that come from a tool's arguments.
"""

import sys
from collections.abc import Callable, Collection, Coroutine, Iterator, Mapping
from contextlib import contextmanager
from functools import wraps
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import click
import msgspec

from local2.cli.output import FAILED, INTERRUPTED, Output, run_async
from local2.config_files import load_settings
from local2.errors import InvalidArgumentsError, Local2Error
from local2.home import asking_user, home_of
from local2.logs import logging_to
from local2.protocol.envelope import Sender
from local2.protocol.payloads import Json
from local2.protocol.subjects import checked_tenant_name
from local2.protocol.tool import parameters_of
from local2.settings import Settings

if TYPE_CHECKING:
    from local2.protocol.memory_tools import Arguments

CommandFunction = Callable[..., Coroutine[Any, Any, None] | None]
"""What a command does; if it is `async`, it runs on an event loop of its own."""
Decorator = Callable[[CommandFunction], CommandFunction]


class NamedPath(click.Path):
    """A path; an empty one, as from a variable that is not set, is none, and not this folder."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        if value == "":
            self.fail("It is empty.", param, ctx)
        return super().convert(value, param, ctx)


PATH = NamedPath(path_type=Path)
SHOW_CURSOR = "\x1b[?25h"
session_option = click.option("--session", help="Continue this session. Default: a new session.")
user_option = click.option(
    "--user",
    help="Ask as this user. Default: the user who is logged in; with accounts, none.",
)
yes_option = click.option("--yes", is_flag=True, help="Do not ask for confirmation.")


class Listed(NamedTuple):
    """A command in a list: its module, and what `--help` says of it; hidden if that is nothing."""

    module: str
    summary: str = ""


class LazyGroup(click.Group):
    """A group that imports the module of a command when the command is called.

    Ctrl-C ends it with exit code 130, also while the module is imported. With --json, what is wrong
    with the command line is JSON, too.
    """

    def __init__(self, *args: Any, listed: Mapping[str, Listed], **options: Any) -> None:
        super().__init__(*args, **options)
        self.listed = listed
        self.commands = dict.fromkeys(listed, click.Command(None))  # click suggests these names

    def invoke(self, ctx: click.Context) -> Any:
        words = ctx.args
        try:
            return super().invoke(ctx)
        except click.UsageError as error:
            if "--json" not in words:
                raise
            about = error.ctx or ctx
            wrong = InvalidArgumentsError(
                error.format_message(), remedy=f"`{about.command_path} --help` shows what is right."
            )
            Output(json=True).error(wrong)
            sys.exit(error.exit_code)
        except KeyboardInterrupt:
            if sys.stderr.isatty():  # a display that was just beginning has hidden it
                click.echo(SHOW_CURSOR, err=True, nl=False)
            sys.exit(INTERRUPTED)

    def list_commands(self, ctx: click.Context) -> list[str]:  # noqa: ARG002 - as in click
        return list(self.listed)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:  # noqa: ARG002
        if cmd_name not in self.listed:
            return None
        module, summary = self.listed[cmd_name]
        named = vars(import_module(f"local2.cli.{module}")).values()
        found = next(c for c in named if isinstance(c, click.Command) and c.name == cmd_name)
        found.help = summary
        found.hidden = not summary
        return found

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:  # noqa: ARG002
        with formatter.section("Commands"):
            formatter.write_dl(
                [(name, summary) for name, (_, summary) in self.listed.items() if summary]
            )


class GlobalOptions(NamedTuple):
    """The folder of the settings, the tenant to ask as, and the folder of the memory, as named."""

    config: Path | None = None
    tenant: str | None = None
    home: Path | None = None


@contextmanager
def running(chosen: GlobalOptions, *, json: bool = False) -> Iterator[tuple[Settings, Output]]:
    """Read the settings for a command, and turn its errors into messages and exit codes.

    An error ends the command with exit code 1. Logs go to standard error unless the command sends
    them to a file.
    """
    output = Output(json=json)
    try:
        with logging_to(level="error"):
            settings = load_settings(chosen.config, home=home_of(chosen.home))
            if chosen.tenant is not None:
                tenant = checked_tenant_name(chosen.tenant)
                bus = msgspec.structs.replace(settings.bus, tenant=tenant)
                settings = msgspec.structs.replace(settings, bus=bus)
            yield settings, output
    except Local2Error as error:
        output.error(error)
        sys.exit(FAILED)


def command(
    name: str | None = None, *, group: click.Group | None = None, json: bool = True
) -> Callable[[CommandFunction], click.Command]:
    """Make the function a command; it gets the settings, the output, and its options by name.

    `group`: the group that it belongs to, if it is not one of the first level. `json`: whether it
    has the option `--json`, which the output obeys.
    """

    def declare(function: CommandFunction) -> click.Command:
        @wraps(function)
        def run(**options: Any) -> None:
            as_json = options.pop("json", False)
            with running(click.get_current_context().obj, json=as_json) as (settings, output):
                work = function(settings, output, **options)
                if work is not None:
                    run_async(work)

        declared = click.command(name)(run)
        if json:
            declared.params.append(
                click.Option(["--json"], is_flag=True, help="Print JSON for programs.")
            )
        if group is not None:
            group.add_command(declared)
        return declared

    return declare


def asked_by_caller(*, session: str | None = None) -> Decorator:
    """Add `--user` and `--agent`; the function gets them as `caller`.

    `session`: the help of `--session`, if the caller also has that.
    """

    def add(function: CommandFunction) -> CommandFunction:
        @wraps(function)
        def run(
            settings: Settings,
            output: Output,
            *,
            user: str | None,
            agent: str,
            caller_session: str | None = None,
            **options: Any,
        ) -> Coroutine[Any, Any, None] | None:
            user = asking_user(settings.bus, user)
            caller = Sender(agent=agent, user=user, session_id=caller_session)
            return function(settings, output, caller=caller, **options)

        decorated = click.option("--agent", default="cli", help="Ask as this agent.")(run)
        decorated = user_option(decorated)
        if session is not None:
            decorated = click.option("--session", "caller_session", help=session)(decorated)
        return decorated

    return add


def words_argument(name: str, about: str) -> Decorator:
    """An argument of one word or several, which are joined: a question needs no quotes."""
    return click.argument(
        name, nargs=-1, required=True, help=about, callback=lambda _, __, words: " ".join(words)
    )


TYPES = {"integer": int, "number": float, "string": str}


def tool_arguments(tool_args: "type[Arguments]", *, without: Collection[str] = ()) -> Decorator:
    """Add the arguments of a tool as options; the function gets them as `args`, a Struct.

    A required one is not an option but an argument. Those that the function declares itself, below
    this decorator and under the same names, are not added. `without`: those that the command does
    not have.
    """

    def add(function: CommandFunction) -> CommandFunction:
        @wraps(function)
        def run(
            settings: Settings, output: Output, **options: Any
        ) -> Coroutine[Any, Any, None] | None:
            given = {}
            for name in options.keys() & set(tool_args.__struct_fields__):
                value = options.pop(name)
                if value is not None and value != ():
                    given[name] = list(value) if isinstance(value, tuple) else value
            return function(settings, output, args=tool_args(**given), **options)

        own = {param.name for param in getattr(run, "__click_params__", ())}
        schema = parameters_of(tool_args)
        decorated: CommandFunction = run
        for name, declared in reversed(schema["properties"].items()):
            if name not in own and name not in without:
                add_parameter = _parameter(name, declared, required=name in schema["required"])
                decorated = add_parameter(decorated)
        return decorated

    return add


def _parameter(name: str, declared: Json, *, required: bool) -> Decorator:
    """Make the click option, or argument, for an argument of a tool."""
    about, default = declared.get("description"), declared.get("default")
    if required:
        return click.argument(name, help=about)
    option = name.removeprefix("enable_").replace("_", "-")
    if declared.get("type") == "boolean":
        flag = f"--{option}/--no-{option}" if default else f"--{option}"
        return click.option(flag, name, default=default, is_flag=True, help=about)
    is_list = declared.get("type") == "array"
    about = f"{about} Repeatable." if is_list else about
    value = declared["items"] if is_list else declared
    type_ = click.Choice(value["enum"]) if "enum" in value else TYPES[value["type"]]
    return click.option(
        f"--{option}", name, type=type_, multiple=is_list, default=default, help=about
    )
