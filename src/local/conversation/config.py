"""How a managed conversation is kept within its budget of tokens.

Plain dataclasses, as in the reference: positional arguments, `dataclasses.asdict`, fields that may
be set. Impossible values are refused when a configuration is made, and when a memory takes it.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Literal, get_args

from local.conversation.tokens import TokenCounter
from local.errors import ConversationError

Stage = Literal["tool_truncation", "summarization", "backward_packing"]
Mode = Literal["compaction", "sliding_window"]
STAGES: tuple[Stage, ...] = ("tool_truncation", "summarization", "backward_packing")
EVENTS = (
    "add", "update", "get_messages", "remove_by_id", "replace_memory", "delete_memory",
    "reset_memory",
)  # fmt: skip


def _check_least(least: int, **values: int) -> None:
    for name, value in values.items():
        if value < least:
            raise ConversationError(f"{name} is {value}.", remedy=f"Give at least {least}.")


def _one_of(names: Sequence[str]) -> str:
    return f"One of: {', '.join(names)}."


@dataclass
class ToolTruncationConfig:
    """Old tool results are cut to `max_tokens` each.

    `grace_recent_messages` counts assistant messages: from the N-th last on all stay whole.
    """

    enabled: bool = True
    max_tokens: int = 200
    grace_recent_messages: int = 1

    def __post_init__(self) -> None:
        self.check()

    def check(self) -> None:
        _check_least(
            0, max_tokens=self.max_tokens, grace_recent_messages=self.grace_recent_messages
        )


@dataclass
class SummarizationConfig:
    """What is old becomes one message of at most `output_max_tokens`.

    `grace_recent_messages` counts assistant messages: from the N-th last on all stay as said.
    `include_original_instruction`: what the user said first stays as said. `max_retained_images`
    stay of what is summarised, the newest; None means as many as a quarter of the room takes, and
    5 after a refused payload. `include_image_payload_bytes`: the summarising model reads the
    content of data URIs, and not just their types.
    """

    enabled: bool = True
    grace_recent_messages: int = 1
    output_max_tokens: int = 6_000
    include_original_instruction: bool = True
    include_image_payload_bytes: bool = False
    max_retained_images: int | None = None

    def __post_init__(self) -> None:
        self.check()

    def check(self) -> None:
        _check_least(
            0,
            grace_recent_messages=self.grace_recent_messages,
            output_max_tokens=self.output_max_tokens,
            max_retained_images=self.max_retained_images or 0,
        )


@dataclass
class BackwardPackingConfig:
    """From the newest message back, whole rounds are kept while they fit."""

    enabled: bool = True


@dataclass
class ActiveContextPolicyConfig:
    enabled: bool = True
    mode: Mode = "compaction"
    processor_order: list[Stage] = field(default_factory=lambda: [*STAGES])
    excluded_processors: list[Stage] = field(default_factory=list)
    min_reduction_ratio: float = 0.4
    tool_truncation: ToolTruncationConfig = field(default_factory=ToolTruncationConfig)
    summarization: SummarizationConfig = field(default_factory=SummarizationConfig)
    backward_packing: BackwardPackingConfig = field(default_factory=BackwardPackingConfig)

    def __post_init__(self) -> None:
        self.check()

    def check(self) -> None:
        self.tool_truncation.check()
        self.summarization.check()
        if self.mode not in get_args(Mode):
            raise ConversationError(f"{self.mode!r} is no mode.", remedy=_one_of(get_args(Mode)))
        if unknown := {*self.processor_order, *self.excluded_processors} - {*STAGES}:
            raise ConversationError(f"{min(unknown)!r} is no processor.", remedy=_one_of(STAGES))
        if not 0 <= self.min_reduction_ratio < 1:
            raise ConversationError(
                f"min_reduction_ratio is {self.min_reduction_ratio:g}.",
                remedy="Give the share to save: from 0, and less than 1.",
            )


@dataclass
class ManagedMemoryConfig:
    """When to compact, and how. Without a `token_counter` tokens are estimated from the text."""

    threshold_tokens: int = 150_000
    image_token_estimate: int = 800
    trigger_events: list[str] = field(default_factory=lambda: ["add", "get_messages"])
    cache_invalidation_events: list[str] = field(
        default_factory=lambda: ["add", "remove_by_id", "delete_memory"]
    )
    token_counter: TokenCounter | None = None
    active_context: ActiveContextPolicyConfig = field(default_factory=ActiveContextPolicyConfig)

    def __post_init__(self) -> None:
        self.check()

    def check(self) -> None:
        """Refuse what cannot be, here and in all parts.

        Raises:
            ConversationError: A number is out of bounds, or a name is none of those there are.
        """
        self.active_context.check()
        _check_least(1, threshold_tokens=self.threshold_tokens)
        _check_least(0, image_token_estimate=self.image_token_estimate)
        if unknown := {*self.trigger_events, *self.cache_invalidation_events} - {*EVENTS}:
            raise ConversationError(f"{min(unknown)!r} is no event.", remedy=_one_of(EVENTS))

    @property
    def compaction_target_tokens(self) -> int:
        """What a compaction brings the conversation down to."""
        return round(self.threshold_tokens * (1 - self.active_context.min_reduction_ratio))
