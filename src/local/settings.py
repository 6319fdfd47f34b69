"""Settings: `config/*.yaml` and `LOCAL2_<FILE>__<KEY>` as frozen Structs, loaded once.

The defaults are here; the files in `config/` repeat them with their explanations, and a test
compares the two. An unknown key is refused, in a file and in the environment, because a misspelled
setting would otherwise have no effect that anybody notices.
"""

import os
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Annotated, Any, Literal, TypeVar, get_args

import msgspec

from local.errors import ConfigError
from local.yaml_files import read_yaml, read_yaml_file

ENVIRONMENT_PREFIX = "LOCAL2_"
HOME_VARIABLE = "LOCAL2_HOME"
"""Names a folder and no setting: see `home`."""
TOOL_OUTPUT_LIMIT = 8_192
"""Characters of a tool's result that a model is given. About 2,000 tokens, a quarter of the default
context; the rest is read on with `read_tool_output`."""

EmbedderChoice = Literal["auto", "ollama", "openai", "minilm"]
ChatChoice = Literal["auto", "ollama", "openai", "rules"]
ExtractorChoice = Literal["rules", "model", "none"]
Anonymising = Literal["dry_run", "on", "off"]
Weight = Annotated[float, msgspec.Meta(ge=0, le=10)]
LONGEST = 86_400
"""Seconds, a day; what waits for ever, as `.inf` would have it, is no timeout."""
Seconds = Annotated[float, msgspec.Meta(gt=0, le=LONGEST)]

T = TypeVar("T", bound=msgspec.Struct)


class BusSettings(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    url: str | None = None
    host: str = "127.0.0.1"
    port: Annotated[int, msgspec.Meta(ge=-1, le=65_535)] = -1
    request_timeout: Seconds = 10.0
    accounts: Path = Path("config/nats")
    tenant: str | None = None
    credentials: Path | None = None
    token: str | None = None


class RoleSettings(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What a role may use besides what those before it may, and to which scopes it may write."""

    tools: tuple[str, ...] = ()
    writes: tuple[Literal["session", "user", "agent", "tenant"], ...] = ()


class RolesSettings(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    reader: RoleSettings = RoleSettings(
        tools=(
            "recall",
            "recall_topic",
            "search_memory",
            "memory_history",
            "read_tool_output",
            "read_document",
            "load_session",
            "top_memories",
            "relations",
            "read_items",
            "status",
        )
    )
    writer: RoleSettings = RoleSettings(
        tools=(
            "save_topic",
            "remember_fact",
            "add_knowledge",
            "save_memory",
            "note",
            "ingest",
            "relate",
            "forget_own",
            "write_items",
            "turn",
        ),
        writes=("session", "user", "agent"),
    )
    curator: RoleSettings = RoleSettings(
        tools=("add_document", "consolidate", "undo", "audit"), writes=("tenant",)
    )
    admin: RoleSettings = RoleSettings(
        tools=("forget", "export", "import", "reindex", "dead_letters")
    )


class MemorySettings(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    data_dir: Path = Path(".local2")
    chroma_path: Path = Path(".chroma")
    content_key_file: Path | None = None
    collection: str = "local2.memory"
    embedder: EmbedderChoice = "auto"
    embedding_model: str = "nomic-embed-text"
    document_prefix: str = "auto"
    query_prefix: str = "auto"
    cosine_floor: Annotated[float, msgspec.Meta(ge=0, lt=1)] | None = None
    ollama_url: str = "http://127.0.0.1:11434"
    openai_url: str | None = None
    openai_key: str | None = None
    embedding_batch: Annotated[int, msgspec.Meta(ge=1, le=2_048)] = 32
    top_k: Annotated[int, msgspec.Meta(ge=1, le=20)] = 5
    min_score: Annotated[float, msgspec.Meta(ge=-1, le=1)] | None = None
    feedback_weight: Annotated[float, msgspec.Meta(ge=0, le=1)] = 0.1
    weight_session: Weight = 1.3
    weight_history: Weight = 1.0
    weight_user: Weight = 1.1
    weight_agent: Weight = 1.0
    weight_tenant: Weight = 1.0
    preseed_importance: Annotated[float, msgspec.Meta(ge=0, le=1)] = 0.8
    preseed_count: Annotated[int, msgspec.Meta(ge=0, le=50)] = 10
    vector_timeout: Seconds = 5.0
    starting_timeout: Annotated[float, msgspec.Meta(ge=0, le=LONGEST)] = 5.0
    turn_timeout: Annotated[float, msgspec.Meta(gt=0, lt=30)] = 20.0
    reranker_url: str | None = None
    reranker_key: str | None = None
    reranker_model: str | None = None
    reranker_timeout: Seconds = 2.0
    reranker_chat_model: str = ""
    reranker_chat_timeout: Seconds = 5.0
    extractor: ExtractorChoice = "rules"
    extraction_model: str = "gemma4"
    extraction_timeout: Seconds = 60.0
    judge_model: str = "gemma4"
    judge_top_k: Annotated[int, msgspec.Meta(ge=1, le=20)] = 5
    judge_distance: Annotated[float, msgspec.Meta(ge=0, le=2)] = 0.7
    judge_timeout: Seconds = 60.0
    synthesis_model: str = "gemma4"
    synthesis_timeout: Seconds = 7.0
    query_model: str = ""
    query_timeout: Seconds = 2.0
    consolidation_hours: Annotated[float, msgspec.Meta(ge=0, le=8_760)] = 24.0
    consolidation_share: Annotated[float, msgspec.Meta(ge=0, le=0.5)] = 0.05
    anonymise: Anonymising = "dry_run"
    anonymise_after_days: Annotated[int, msgspec.Meta(ge=0, le=36_500)] = 30
    backup_folder: Path | None = None
    backup_hours: Annotated[float, msgspec.Meta(gt=0, le=8_760)] = 24.0
    backup_keep: Annotated[int, msgspec.Meta(ge=1, le=1_000)] = 7
    backup_recipient: str | None = None


class GeneratorSettings(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    chat: ChatChoice = "auto"
    model: str = "gemma4"
    ollama_url: str = "http://127.0.0.1:11434"
    openai_url: str | None = None
    openai_key: str | None = None
    temperature: Annotated[float, msgspec.Meta(ge=0)] = 0.2
    context_size: Annotated[int, msgspec.Meta(gt=0)] = 8192
    system_prompt: str = (
        "You are a helpful assistant with a long-term memory that you reach through tools. "
        "When the user asks you to remember something, save it. When a question may concern "
        "the user, the project or an earlier conversation, look it up before you answer."
    )
    tool_timeout: Seconds = 10.0
    tool_output_limit: Annotated[int, msgspec.Meta(ge=1_000)] = TOOL_OUTPUT_LIMIT
    max_rounds: Annotated[int, msgspec.Meta(ge=0)] = 4
    restored_messages: Annotated[int, msgspec.Meta(ge=0, le=1_000)] = 200
    compressed_above: Annotated[float, msgspec.Meta(gt=0, le=1)] = 0.8
    compressed_messages: Annotated[int, msgspec.Meta(ge=0)] = 4
    compaction_threshold: Annotated[int, msgspec.Meta(gt=0)] = 150_000
    turns_per_user: Annotated[int, msgspec.Meta(ge=1, le=256)] = 4
    knowledge: bool = False
    tools: tuple[str, ...] = ()
    hidden_tools: tuple[str, ...] = ()


class TelemetrySettings(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    traces: bool = False
    metrics_port: Annotated[int, msgspec.Meta(ge=0, le=65_535)] = 0
    metrics_host: str = "127.0.0.1"
    metrics_beyond_loopback: bool = False


class McpSettings(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    user: str | None = None
    agent: str | None = None
    session: str | None = None
    profile: tuple[str, ...] = ("default",)
    result_limit: Annotated[int, msgspec.Meta(ge=1_000)] = 30_000
    tool_timeout: Seconds = 60.0
    port: Annotated[int, msgspec.Meta(ge=0, le=65_535)] = 8642
    token: str | None = None


Count = Annotated[int, msgspec.Meta(ge=1)]
NoneOrMore = Annotated[int, msgspec.Meta(ge=0)]
Rate = Annotated[float, msgspec.Meta(ge=0)]


class SlotLimits(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """How many requests run at once; how many may wait or run, and how many bytes they have.

    Each altogether, of one tenant, and of one user. The defaults leave a fifth of everything to
    other tenants, and a part of their tenant's to other users, whatever one of them does.
    """

    requests: Count = 320
    tenant_requests: Count = 256
    user_requests: Count = 192
    waiting: Count = 10_240
    tenant_waiting: Count = 8_192
    user_waiting: Count = 4_096
    waiting_bytes: Count = 80 * 1024 * 1024
    tenant_waiting_bytes: Count = 64 * 1024 * 1024
    user_waiting_bytes: Count = 32 * 1024 * 1024


class LimitSettings(SlotLimits, frozen=True, kw_only=True, forbid_unknown_fields=True):
    request_bytes: Count = 8_000_000
    nesting: Annotated[int, msgspec.Meta(ge=8)] = 64
    tenant_rate: Rate = 20_000
    tenant_burst: Count = 40_000
    user_rate: Rate = 10_000
    user_burst: Count = 20_000
    tenant_records: NoneOrMore = 10_000_000
    tenant_bytes: NoneOrMore = 20_000_000_000


class Settings(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One Struct for each file in `config/`; the names are the files' names."""

    bus: BusSettings = msgspec.field(default_factory=BusSettings)
    memory: MemorySettings = msgspec.field(default_factory=MemorySettings)
    roles: RolesSettings = msgspec.field(default_factory=RolesSettings)
    generator: GeneratorSettings = msgspec.field(default_factory=GeneratorSettings)
    telemetry: TelemetrySettings = msgspec.field(default_factory=TelemetrySettings)
    limits: LimitSettings = msgspec.field(default_factory=LimitSettings)
    mcp: McpSettings = msgspec.field(default_factory=McpSettings)


def load_settings(
    folder: Path | None = None,
    environment: Mapping[str, str] = os.environ,
    *,
    home: Path = Path(),
) -> Settings:
    """Read the settings.

    Args:
        folder: Holds the YAML files. None means `config` in `home` if it exists, else only
            defaults.
        environment: Overrides, such as `LOCAL2_MEMORY__TOP_K=10`; values are read as YAML.
        home: Where relative paths begin; by default that is the current folder.

    Raises:
        ConfigError: A file cannot be read, or a key or value does not match the Structs.
    """
    if folder is not None and not folder.is_dir():
        raise ConfigError(f"There is no folder {folder}.", remedy="Name one that holds bus.yaml.")
    sections = {
        name: _read_file((folder or home / "config") / f"{name}.yaml")
        for name in Settings.__struct_fields__
    }
    for variable, value in environment.items():
        if variable.startswith(ENVIRONMENT_PREFIX) and variable != HOME_VARIABLE:
            _override(sections, variable, value)
    return Settings(
        bus=_convert(sections, "bus", BusSettings, home),
        memory=_convert(sections, "memory", MemorySettings, home),
        roles=_convert(sections, "roles", RolesSettings, home),
        generator=_convert(sections, "generator", GeneratorSettings, home),
        telemetry=_convert(sections, "telemetry", TelemetrySettings, home),
        limits=_convert(sections, "limits", LimitSettings, home),
        mcp=_convert(sections, "mcp", McpSettings, home),
    )


def _read_file(path: Path) -> dict[str, Any]:
    try:
        content = read_yaml_file(path)
    except FileNotFoundError:
        return {}
    if content is None:
        return {}
    if not isinstance(content, dict):
        raise ConfigError(f"{path} must hold `key: value` lines, not a {type(content).__name__}.")
    return content


def _override(sections: dict[str, dict[str, Any]], variable: str, value: str) -> None:
    section, _, key = variable.removeprefix(ENVIRONMENT_PREFIX).lower().partition("__")
    if section not in sections or not key:
        known = ", ".join(f"{ENVIRONMENT_PREFIX}{name.upper()}__<KEY>" for name in sections)
        raise ConfigError(f"The environment variable {variable} names no setting.", remedy=known)
    try:
        sections[section][key] = read_yaml(value) if value else ""
    except ConfigError as error:
        raise ConfigError(
            f"{variable}: {error.message}",
            remedy="Put a text with special characters in quotes of its own: '\"…\"'.",
        ) from None


def _without_empty(section: dict[str, Any], into: type[msgspec.Struct]) -> dict[str, Any]:
    """An empty value means None where a setting may be None, such as `reranker_url`."""
    nullable = {
        field.name for field in msgspec.structs.fields(into) if type(None) in get_args(field.type)
    }
    return {
        key: None if value == "" and key in nullable else value for key, value in section.items()
    }


def _with_switches(section: dict[str, Any], into: type[msgspec.Struct]) -> dict[str, Any]:
    """YAML reads `on` and `off` as true and false."""
    switches = {
        field.name for field in msgspec.structs.fields(into) if "on" in get_args(field.type)
    }
    return {
        key: ("on" if value else "off") if key in switches and isinstance(value, bool) else value
        for key, value in section.items()
    }


def _as_path(kind: type, value: Any) -> Path:
    if kind is Path and isinstance(value, str) and value and "\0" not in value:
        with suppress(RuntimeError):  # there is no such user
            return Path(value).expanduser()
    raise msgspec.ValidationError(f"Expected a path, got `{value!r}`")


def _beginning(home: Path, section: T) -> T:
    """The section with its relative paths beginning at home."""
    values = ((name, getattr(section, name)) for name in section.__struct_fields__)
    paths = {name: home / value for name, value in values if isinstance(value, Path)}
    return msgspec.structs.replace(section, **paths)


def _convert(sections: Mapping[str, dict[str, Any]], name: str, into: type[T], home: Path) -> T:
    try:
        section = _with_switches(_without_empty(sections[name], into), into)
        return _beginning(home, msgspec.convert(section, into, dec_hook=_as_path))
    except (msgspec.ValidationError, UnicodeEncodeError) as error:
        raise ConfigError(
            f"config/{name}.yaml or {ENVIRONMENT_PREFIX}{name.upper()}__*: {error}.",
            remedy=f"Known keys: {', '.join(into.__struct_fields__)}.",
        ) from error
