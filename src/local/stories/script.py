"""Stories: what happens between users, agents and a live stack, written down in YAML.

A file names the story, describes it and lists its sessions, each with its turns:

    name: A fact is remembered
    description: What is said in one session is known in the next.
    sessions:
      - id: first
        turns:
          - say: Please remember my preferred language is Elixir.
            expect:
              - tool_called: {name: save_topic, args: {content: Elixir}}
      - id: second
        turns:
          - call: recall_topic
            args: {topic: user.language_preference}
            expect:
              - result_contains: Elixir

Every turn is one of the Steps below, told by the key that bears its name; what it may expect is in
`checks`. In expectations text is compared without regard to case, a value that starts with `~` is a
regular expression to search for, and null stands for nothing there. `tools` are those of other
agents; the story brings them along.
"""

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Annotated, Any, ClassVar, Literal, Self

import msgspec
import yaml
from msgspec.structs import replace

from local.errors import ConfigError
from local.protocol.payloads import Json
from local.stories.checks import (
    OF_ANSWERS,
    OF_DISCOVERIES,
    OF_RESULTS,
    OF_THE_RUN,
    Check,
    Text,
    filled,
    names_in,
    text_of,
)
from local.stories.hosting import StoryTool

KIND = "<kind>"
"""Where a step says which Struct it is; no key that anybody would write."""

Name = Annotated[str, msgspec.Meta(pattern=r"^[a-z0-9_]+$")]
Seconds = Annotated[float, msgspec.Meta(gt=0)]


class _Step(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, tag_field=KIND):
    pass


class _Expecting(_Step, frozen=True, kw_only=True):
    """A step with an outcome; `within` is how many seconds that may take."""

    checks: ClassVar[frozenset[str]]

    expect: tuple[Check, ...] = ()
    within: Seconds = 15.0

    def __post_init__(self) -> None:
        for check in self.expect:
            if check.kind not in self.checks:
                known = ", ".join(sorted(self.checks))
                raise ValueError(f"`{check.kind}` says nothing here; what does: {known}")

    @property
    def expected(self) -> tuple[Check, ...]:
        """The checks, with those that go without saying."""
        return self.expect


class _Requesting(_Expecting, frozen=True, kw_only=True):
    """A request to a tool; it must succeed unless the checks say how it fails."""

    checks = OF_RESULTS

    @property
    def expected(self) -> tuple[Check, ...]:
        if any(check.kind in {"result_ok", "error_code"} for check in self.expect):
            return self.expect
        return (Check(result_ok=True), *self.expect)


class Say(_Expecting, frozen=True, kw_only=True, tag="say"):
    """The user says something, and waits for the answer. A `label` is what `rate` may name.

    It is said so many `times`, `$number` standing for 1, 2 and so on; the checks hold each time.
    """

    checks = OF_ANSWERS

    say: Text
    label: Name | None = None
    times: Annotated[int, msgspec.Meta(ge=1)] = 1

    def texts(self) -> Iterator[str]:
        """What is said, time after time."""
        for number in range(1, self.times + 1):
            yield self.say.replace("$number", str(number))

    def __str__(self) -> str:
        return f"say: {self.say}" + (f" ({self.times} times)" if self.times > 1 else "")


class Call(_Requesting, frozen=True, kw_only=True, tag="call"):
    """Another agent calls a tool over the bus, without the generator.

    With `eventually` it calls again until every check holds, for so many seconds. `keep` names
    values of the result by their paths; `$name` stands for one in later `args` and `result_data`.
    """

    call: Text
    args: Json = msgspec.field(default_factory=dict)
    agent: Name = "story"
    eventually: Seconds | None = None
    keep: dict[Name, Text] = msgspec.field(default_factory=dict)

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.eventually is not None and not self.expect:
            raise ValueError("`eventually` needs something to `expect`")

    def names(self) -> Iterator[str]:
        """The kept values that this step needs."""
        yield from names_in([self.args, [check.result_data for check in self.expect]])

    def filled(self, kept: Mapping[str, Any]) -> Self:
        """The step with the values in place of their names."""
        expect = tuple(
            check
            if check.result_data is None
            else replace(check, result_data=filled(check.result_data, kept))
            for check in self.expect
        )
        return replace(self, args=filled(self.args, kept), expect=expect)

    def __str__(self) -> str:
        return f"call: {self.call} {text_of(self.args)}"


class Raw(_Requesting, frozen=True, kw_only=True, tag="raw"):
    """A request as it is written, however broken; `$user` and `$session` stand for the run's.

    `to` is a tool, or a subject.
    """

    raw: str
    to: Text

    def __str__(self) -> str:
        return f"raw: {self.raw}"


class Publish(_Step, frozen=True, kw_only=True, tag="publish"):
    """Another agent publishes a message into a stream, as it is written, envelope and all.

    In it `$user`, `$session` and what was kept stand for what they name.
    """

    publish: Json
    to: Literal["response.generation", "response.feedback"] = "response.generation"

    def names(self) -> Iterator[str]:
        """The kept values that this step needs."""
        yield from names_in(self.publish)

    def __str__(self) -> str:
        return f"publish: {text_of(self.publish)}"


class Rate(_Step, frozen=True, kw_only=True, tag="rate"):
    """Feedback for the last answer of the session, or for the one whose label `of` names."""

    rate: Annotated[float, msgspec.Meta(ge=-1, le=1)]
    of: Name | None = None

    def __str__(self) -> str:
        return f"rate: {self.rate:+g}" + (f" of {self.of}" if self.of else "")


class Discover(_Expecting, frozen=True, kw_only=True, tag="discover"):
    """A new client connects and learns from the bus which tools there are."""

    checks = OF_DISCOVERIES

    discover: bool

    def __post_init__(self) -> None:
        super().__post_init__()
        if not self.discover:
            raise ValueError("`discover` can only be true")

    def __str__(self) -> str:
        return "discover"


class Restart(_Step, frozen=True, kw_only=True, tag="restart"):
    """The stack is stopped cleanly and started on the same folders, perhaps without a generator."""

    restart: bool
    generator: bool = True

    def __post_init__(self) -> None:
        if not self.restart:
            raise ValueError("`restart` can only be true")

    def __str__(self) -> str:
        return "restart"


Step = Say | Call | Raw | Publish | Rate | Discover | Restart
KINDS = ("say", "call", "raw", "publish", "rate", "discover", "restart")


class Session(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One conversation. `id` and `user` are names: every run makes fresh ones of them.

    Sessions without a user share one; a session may go on further down under the same id.
    """

    id: Name
    turns: Annotated[tuple[Step, ...], msgspec.Meta(min_length=1)]
    user: Name | None = None


class Story(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    name: Text
    description: Text
    sessions: Annotated[tuple[Session, ...], msgspec.Meta(min_length=1)]
    tools: tuple[StoryTool, ...] = ()

    def __post_init__(self) -> None:
        labels: set[str] = set()
        spoken: set[str] = set()
        kept: set[str] = set(OF_THE_RUN)
        for where, session, step in self._steps():
            match step:
                case Say(label=label):
                    if label in labels:
                        raise ValueError(f"The label `{label}` is there twice - at `{where}`")
                    labels |= {label} if label else set()
                    spoken.add(session.id)
                case Rate(of=str(label)) if label not in labels:
                    raise ValueError(f"`of` names no earlier label: {label} - at `{where}`")
                case Rate(of=None) if session.id not in spoken:
                    raise ValueError(f"Nothing was said yet that could be rated - at `{where}`")
                case Call() | Publish():
                    if unknown := sorted(set(step.names()) - kept):
                        raise ValueError(f"Nothing was kept as `${unknown[0]}` - at `{where}`")
                    kept |= step.keep.keys() if isinstance(step, Call) else set()

    def _steps(self) -> Iterator[tuple[str, Session, Step]]:
        for s, session in enumerate(self.sessions):
            for t, step in enumerate(session.turns):
                yield _path(s, t), session, step


def load_story(path: Path) -> Story:
    """Read a story from its file.

    Raises:
        ConfigError: It cannot be read, or is no story; the message names the file and the field.
    """
    try:
        document = yaml.safe_load(path.read_text(encoding="utf-8"))
        return msgspec.convert(_with_kinds(document), Story)
    except (OSError, UnicodeDecodeError, yaml.YAMLError) as error:
        raise ConfigError(f"Cannot read the story {path}: {error}") from error
    except msgspec.ValidationError as error:
        raise ConfigError(f"{path}: {error}.") from error


def _with_kinds(document: Any) -> Any:
    """Tell every step's kind by the key it has, so that it becomes the right Struct."""
    for where, step in _raw_steps(document):
        given = [kind for kind in KINDS if kind in step]
        if len(given) != 1:
            found = " and ".join(given) or "none"
            raise msgspec.ValidationError(
                f"A step has exactly one of {', '.join(KINDS)}; here: {found} - at `{where}`"
            )
        step[KIND] = given[0]
    return document


def _raw_steps(document: Any) -> Iterator[tuple[str, dict[Any, Any]]]:
    """Whatever looks like a step; what does not is refused when it is converted."""
    match document:
        case {"sessions": [*sessions]}:
            for s, session in enumerate(sessions):
                match session:
                    case {"turns": [*turns]}:
                        steps = ((_path(s, t), turn) for t, turn in enumerate(turns))
                        yield from ((where, turn) for where, turn in steps if type(turn) is dict)


def _path(session: int, turn: int) -> str:
    return f"$.sessions[{session}].turns[{turn}]"
