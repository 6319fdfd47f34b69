"""Stories: what users and agents do with a live stack, and what they expect, as YAML.

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

Every turn is one of the steps below, recognised by the key of the same name; `checks` defines what
it may expect. In expectations, text is compared without regard to case, a value that starts with
`~` is a regular expression to search for, and null means that there is no value. `tools` defines
tools of other agents for the story.
"""

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Annotated, Any, ClassVar, Literal, Self, get_args

import msgspec
from msgspec.structs import replace

from local2.config_files import read_yaml_file
from local2.errors import ConfigError
from local2.protocol.payloads import Json
from local2.stories import checks
from local2.stories.bench import StoryTool
from local2.stories.checks import Check, Text, filled, names_in, text_of

KIND = "<kind>"
"""The field that selects the Struct of a step. No story would have such a key."""

Name = Annotated[str, msgspec.Meta(pattern=r"^[a-z0-9_]+$")]
Seconds = Annotated[float, msgspec.Meta(gt=0)]


class _Step(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, tag_field=KIND):
    pass


class _Expecting(_Step, frozen=True, kw_only=True):
    """A step with an outcome, which may take `within` seconds."""

    allowed: ClassVar[frozenset[str]]

    expect: tuple[Check, ...] = ()
    within: Seconds = 15.0

    def __post_init__(self) -> None:
        for check in self.expect:
            if check.kind not in self.allowed:
                known = ", ".join(sorted(self.allowed))
                raise ValueError(f"`{check.kind}` does not apply here; these do: {known}")

    @property
    def expected(self) -> tuple[Check, ...]:
        """The checks, including implied ones."""
        return self.expect


class _Requesting(_Expecting, frozen=True, kw_only=True):
    """A request to a tool, which must succeed unless a check expects a failure."""

    allowed = checks.RESULT_CHECKS

    @property
    def expected(self) -> tuple[Check, ...]:
        if any(check.kind in {"result_ok", "error_code"} for check in self.expect):
            return self.expect
        return (Check(result_ok=True), *self.expect)


class Say(_Expecting, frozen=True, kw_only=True, tag="say"):
    """The user says something and waits for the answer, which `rate` may name by its `label`.

    With `times` it is repeated, with 1, 2 and so on for `$number`; the checks must hold each time.
    """

    allowed = checks.ANSWER_CHECKS

    say: Text
    label: Name | None = None
    times: Annotated[int, msgspec.Meta(ge=1)] = 1

    def texts(self) -> Iterator[str]:
        """Yield the texts of the user's messages in order."""
        for number in range(1, self.times + 1):
            yield self.say.replace("$number", str(number))

    def __str__(self) -> str:
        return f"say: {self.say}" + (f" ({self.times} times)" if self.times > 1 else "")


class Call(_Requesting, frozen=True, kw_only=True, tag="call"):
    """Another agent calls a tool over the bus, without the generator.

    With `eventually` it calls repeatedly for that many seconds, until every check holds. `keep`
    stores values of the result by name, from their paths, for `$name` in later steps.
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
        """Yield the names of the stored values that this step needs."""
        yield from names_in([self.args, [check.result_data for check in self.expect]])

    def filled(self, stored: Mapping[str, Any]) -> Self:
        """The same step with each `$name` replaced by the stored value."""
        expect = tuple(
            check
            if check.result_data is None
            else replace(check, result_data=filled(check.result_data, stored))
            for check in self.expect
        )
        return replace(self, args=filled(self.args, stored), expect=expect)

    def __str__(self) -> str:
        return f"call: {self.call} {text_of(self.args)}"


class Raw(_Requesting, frozen=True, kw_only=True, tag="raw"):
    """A request sent exactly as written, even if it is broken, to a tool or a subject.

    `$user` and `$session` become those of the run.
    """

    raw: str
    to: Text

    def __str__(self) -> str:
        return f"raw: {self.raw}"


class Publish(_Step, frozen=True, kw_only=True, tag="publish"):
    """Another agent publishes a message into a stream exactly as written, with its envelope.

    `$user`, `$session` and the names of stored values are replaced.
    """

    publish: Json
    to: Literal["response.generation", "response.feedback"] = "response.generation"

    def names(self) -> Iterator[str]:
        """Yield the names of the stored values that this step needs."""
        yield from names_in(self.publish)

    def __str__(self) -> str:
        return f"publish: {text_of(self.publish)}"


class Rate(_Step, frozen=True, kw_only=True, tag="rate"):
    """Feedback for the last answer of the session, or for the one with the label `of`."""

    rate: Annotated[float, msgspec.Meta(ge=-1, le=1)]
    of: Name | None = None

    def __str__(self) -> str:
        return f"rate: {self.rate:+g}" + (f" of {self.of}" if self.of else "")


class Discover(_Expecting, frozen=True, kw_only=True, tag="discover"):
    """A new client connects, and learns from the bus which tools exist."""

    allowed = checks.DISCOVERY_CHECKS

    discover: bool

    def __post_init__(self) -> None:
        super().__post_init__()
        if not self.discover:
            raise ValueError("`discover` can only be true")

    def __str__(self) -> str:
        return "discover"


class Restart(_Step, frozen=True, kw_only=True, tag="restart"):
    """The stack stops cleanly and starts again on the same folders, with or without a generator."""

    restart: bool
    generator: bool = True

    def __post_init__(self) -> None:
        if not self.restart:
            raise ValueError("`restart` can only be true")

    def __str__(self) -> str:
        return "restart"


Step = Say | Call | Raw | Publish | Rate | Discover | Restart
KINDS = tuple(str(step.__struct_config__.tag) for step in get_args(Step))


class StorySession(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One conversation. Every run derives new ids from the names `id` and `user`.

    Sessions without a user share one. A session may continue later under the same `id`.
    """

    id: Name
    turns: Annotated[tuple[Step, ...], msgspec.Meta(min_length=1)]
    user: Name | None = None


class Story(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    name: Text
    description: Text
    sessions: Annotated[tuple[StorySession, ...], msgspec.Meta(min_length=1)]
    tools: tuple[StoryTool, ...] = ()

    def __post_init__(self) -> None:
        labels: set[str] = set()
        answered: set[str] = set()
        stored: set[str] = set(checks.RUN_NAMES)
        for s, session in enumerate(self.sessions):
            for t, step in enumerate(session.turns):
                where = _path(s, t)
                match step:
                    case Say(label=label):
                        if label in labels:
                            raise ValueError(f"The label `{label}` is used twice - at `{where}`")
                        labels |= {label} if label else set()
                        answered.add(session.id)
                    case Rate(of=str(label)) if label not in labels:
                        raise ValueError(f"`of` names no earlier label: {label} - at `{where}`")
                    case Rate(of=None) if session.id not in answered:
                        raise ValueError(f"Nothing was said yet that could be rated - at `{where}`")
                    case Call() | Publish():
                        if unknown := sorted(set(step.names()) - stored):
                            raise ValueError(f"Nothing was kept as `${unknown[0]}` - at `{where}`")
                        stored |= step.keep.keys() if isinstance(step, Call) else set()


def load_story(path: Path) -> Story:
    """Read a story from its file.

    Raises:
        ConfigError: It cannot be read, or is not a story; the error names the file and the field.
    """
    try:
        document = read_yaml_file(path)
        _add_kinds(document)
        story = msgspec.convert(document, Story)
        msgspec.json.encode(story)  # fails for invalid Unicode and for cycles, which cannot be sent
    except FileNotFoundError as error:
        raise ConfigError(f"There is no story {path}.") from error
    except (msgspec.ValidationError, UnicodeEncodeError, RecursionError) as error:
        raise ConfigError(f"{path}: {error}.") from error
    return story


def _add_kinds(document: Any) -> None:
    """Add its kind, recognised by its key, to every step, so that it becomes the right Struct.

    Whatever does not look like a step is left to the conversion, which refuses it.
    """
    sessions = document.get("sessions") if isinstance(document, dict) else None
    for s, session in enumerate(sessions if isinstance(sessions, list) else ()):
        turns = session.get("turns") if isinstance(session, dict) else None
        for t, step in enumerate(turns if isinstance(turns, list) else ()):
            if not isinstance(step, dict):
                continue
            given = [kind for kind in KINDS if kind in step]
            if len(given) != 1:
                found = " and ".join(given) or "none"
                raise msgspec.ValidationError(
                    f"A step has exactly one of {', '.join(KINDS)}; here: {found} - "
                    f"at `{_path(s, t)}`"
                )
            step[KIND] = given[0]


def _path(session: int, turn: int) -> str:
    return f"$.sessions[{session}].turns[{turn}]"
