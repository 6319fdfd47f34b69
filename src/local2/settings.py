"""The settings as frozen Structs; `config_files.py` reads them.

They come from `config/*.yaml` and from variables `LOCAL2_<FILE>__<KEY>`. The defaults are defined
here. The files in `config/` repeat and explain them; a test compares the two.
"""

import os
from collections.abc import Mapping
from ipaddress import ip_address
from pathlib import Path
from typing import Annotated, Any, Final, Literal

import msgspec

HOME_VARIABLE = "LOCAL2_HOME"
"""The environment variable that names the home folder; it is no setting (see `home`)."""
TOOL_OUTPUT_LIMIT = 8_192
"""Maximum characters of a tool's result that a model receives: about 2,000 tokens, a quarter of the
default context. The model reads the rest with `read_tool_output`."""

EmbedderChoice = Literal["auto", "ollama", "openai", "minilm", "minilm-int8", "minilm+e5"]
ChatChoice = Literal["auto", "ollama", "openai", "rules"]
ModelChoice = Annotated[str, msgspec.Meta(min_length=1)]
"""What does a part of the memory's work: `auto`, the chat model; `rules` or `none`, no model; else
the model of this name, of the same service."""
Anonymising = Literal["dry_run", "on", "off"]
ONNX_PREFIX = "onnx:"
"""Beginning of a `reranker` that is a folder with a model."""
DatabaseUrl = Annotated[
    str, msgspec.Meta(pattern="^postgres(ql)?://", examples=["postgresql://USER@HOST/DATABASE"])
]
RerankerFolder = Annotated[
    str, msgspec.Meta(pattern=f"^{ONNX_PREFIX}.", examples=[f"{ONNX_PREFIX}FOLDER"])
]
Weight = Annotated[float, msgspec.Meta(ge=0, le=10)]
MAX_TIMEOUT = 86_400
"""Maximum timeout in seconds: a day. It excludes `.inf`, which would be no timeout."""
Seconds = Annotated[float, msgspec.Meta(gt=0, le=MAX_TIMEOUT)]


def is_loopback(host: str) -> bool:
    """Whether only this machine reaches an address."""
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


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
    """The tools that a role adds to those of the previous roles, and the scopes it may write.

    `tools`: None means those that name the role in their declarations.
    """

    tools: tuple[str, ...] | None = None
    writes: tuple[Literal["session", "user", "agent", "tenant"], ...] = ()


class RolesSettings(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    reader: RoleSettings = RoleSettings()
    writer: RoleSettings = RoleSettings(writes=("session", "user", "agent"))
    curator: RoleSettings = RoleSettings(writes=("tenant",))
    admin: RoleSettings = RoleSettings()


class MemorySettings(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    data_dir: Path = Path(".local2")
    chroma_path: Path = Path(".chroma")
    content_key_file: Path | None = None
    ledger: DatabaseUrl | None = None
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
    starting_timeout: Annotated[float, msgspec.Meta(ge=0, le=MAX_TIMEOUT)] = 0.0
    turn_timeout: Annotated[float, msgspec.Meta(gt=0, lt=30)] = 20.0
    reranker: RerankerFolder | None = None
    reranker_url: str | None = None
    reranker_key: str | None = None
    reranker_model: str | None = None
    reranker_timeout: Seconds = 2.0
    reranker_chat_model: ModelChoice = "none"
    reranker_chat_timeout: Seconds = 5.0
    extraction_model: ModelChoice = "auto"
    extraction_timeout: Seconds = 60.0
    judge_model: ModelChoice = "auto"
    judge_top_k: Annotated[int, msgspec.Meta(ge=1, le=20)] = 5
    judge_distance: Annotated[float, msgspec.Meta(ge=0, le=2)] = 0.7
    judge_timeout: Seconds = 60.0
    synthesis_model: ModelChoice = "auto"
    synthesis_timeout: Seconds = 7.0
    query_model: ModelChoice = "auto"
    query_timeout: Seconds = 2.0
    consolidation_hours: Annotated[float, msgspec.Meta(ge=0, le=8_760)] = 24.0
    consolidation_share: Annotated[float, msgspec.Meta(ge=0, le=0.5)] = 0.05
    recall_log_days: Annotated[int, msgspec.Meta(ge=0, le=36_500)] = 0
    anonymise: Anonymising = "dry_run"
    anonymise_after_days: Annotated[int, msgspec.Meta(ge=0, le=36_500)] = 30
    backup_folder: Path | None = None
    backup_hours: Annotated[float, msgspec.Meta(gt=0, le=8_760)] = 24.0
    backup_keep: Annotated[int, msgspec.Meta(ge=1, le=1_000)] = 7
    backup_recipient: str | None = None

    @property
    def models_dir(self) -> Path:
        """The folder of downloaded models."""
        return self.data_dir / "models"

    @property
    def reranker_folder(self) -> Path | None:
        """The folder that `reranker` names; a relative path begins in `models_dir`."""
        if self.reranker is None:
            return None
        folder = self.reranker.removeprefix(ONNX_PREFIX)
        return self.models_dir / os.path.expanduser(folder)  # noqa: PTH111 - this never raises


WITHOUT_MODELS: Final[Mapping[str, Any]] = {
    "extraction_model": "rules",
    "judge_model": "rules",
    "synthesis_model": "rules",
    "query_model": "rules",
}
"""Settings of a memory that works by rules even if there is a chat model."""


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


class HttpSettings(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    user: str | None = None
    timeout: Seconds = 60.0
    port: Annotated[int, msgspec.Meta(ge=0, le=65_535)] = 8643
    token: str | None = None
    web: bool = False


Count = Annotated[int, msgspec.Meta(ge=1)]
NonNegativeInt = Annotated[int, msgspec.Meta(ge=0)]
Rate = Annotated[float, msgspec.Meta(ge=0)]


class SlotLimits(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Limits on running requests, on admitted (waiting or running) requests, and on their bytes.

    Each limit exists for all requests, for one tenant, and for one user. With the defaults, one
    tenant leaves a fifth of everything to other tenants, and one user leaves part of the tenant's
    share to other users.
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
    tenant_records: NonNegativeInt = 10_000_000
    tenant_bytes: NonNegativeInt = 20_000_000_000
    tenant_model_calls: NonNegativeInt = 5_000
    tenant_model_tokens: NonNegativeInt = 2_000_000


class Settings(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One Struct for each file in `config/`; the fields are named after the files."""

    bus: BusSettings = msgspec.field(default_factory=BusSettings)
    memory: MemorySettings = msgspec.field(default_factory=MemorySettings)
    roles: RolesSettings = msgspec.field(default_factory=RolesSettings)
    generator: GeneratorSettings = msgspec.field(default_factory=GeneratorSettings)
    telemetry: TelemetrySettings = msgspec.field(default_factory=TelemetrySettings)
    limits: LimitSettings = msgspec.field(default_factory=LimitSettings)
    mcp: McpSettings = msgspec.field(default_factory=McpSettings)
    http: HttpSettings = msgspec.field(default_factory=HttpSettings)
