"""The configuration of a managed conversation: how it stays within its token budget.

These are plain dataclasses, as in the reference, with positional arguments, `dataclasses.asdict`
and mutable fields. Since fields can change, impossible values are refused twice: when a
configuration is created, and when a memory receives it.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Literal, get_args

from local2.conversation.context import TokenCounter
from local2.errors import ConversationError, quoted

Stage = Literal["tool_truncation", "summarization", "backward_packing"]
Mode = Literal["compaction", "sliding_window"]
STAGES: tuple[Stage, ...] = ("tool_truncation", "summarization", "backward_packing")
EVENTS = (
    "add", "update", "get_messages", "remove_by_id", "replace_memory", "delete_memory",
    "reset_memory",
)  # fmt: skip


def _check_minimum(minimum: int, **values: int) -> None:
    for name, value in values.items():
        if not isinstance(value, int) or value < minimum:
            raise ConversationError(
                f"{name} is {value!r}.", remedy=f"Give a whole number of at least {minimum}."
            )


def _check_type(type_: type, **parts: object) -> None:
    for name, part in parts.items():
        if not isinstance(part, type_):
            raise ConversationError(
                f"{name} is {quoted(part)}.",
                remedy=f"Give a {type_.__name__}; with enabled=False, it does nothing.",
            )


def _choices(names: Sequence[str]) -> str:
    return f"One of: {', '.join(names)}."


@dataclass
class ToolTruncationConfig:
    """Cuts old tool results to `max_tokens` each.

    `grace_recent_messages` counts assistant messages: from the N-th last one on, all messages stay
    whole. 200 tokens show what a result was, and cost little when a turn has many results.
    """

    enabled: bool = True
    max_tokens: int = 200
    grace_recent_messages: int = 1

    def __post_init__(self) -> None:
        self.check()

    def check(self) -> None:
        _check_minimum(
            0, max_tokens=self.max_tokens, grace_recent_messages=self.grace_recent_messages
        )


@dataclass
class SummarizationConfig:
    """Replaces old messages by a summary of at most `output_max_tokens`.

    Attributes:
        grace_recent_messages: Counts assistant messages: from the N-th last one on, all messages
            stay.
        include_original_instruction: Whether the user's first message stays word for word.
        include_image_payload_bytes: Whether the summarising model reads the content of data URIs,
            and not just their types.
        max_retained_images: How many images of summarised messages stay, newest first. None means
            as many as fit into a quarter of the tokens, and 5 after a refused payload.
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
        _check_minimum(
            0,
            grace_recent_messages=self.grace_recent_messages,
            output_max_tokens=self.output_max_tokens,
            max_retained_images=self.max_retained_images or 0,
        )


@dataclass
class BackwardPackingConfig:
    """Keeps whole rounds, from the newest one back, while they fit."""

    enabled: bool = True


@dataclass
class ActiveContextPolicyConfig:
    """How the context is shortened: by compaction in stages, or by a sliding window."""

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
        _check_type(ToolTruncationConfig, tool_truncation=self.tool_truncation)
        _check_type(SummarizationConfig, summarization=self.summarization)
        _check_type(BackwardPackingConfig, backward_packing=self.backward_packing)
        self.tool_truncation.check()
        self.summarization.check()
        if self.mode not in get_args(Mode):
            raise ConversationError(
                f"{self.mode!r} is not a mode.", remedy=_choices(get_args(Mode))
            )
        if unknown := {*self.processor_order, *self.excluded_processors} - {*STAGES}:
            raise ConversationError(
                f"{min(unknown)!r} is not a processor.", remedy=_choices(STAGES)
            )
        ratio = self.min_reduction_ratio
        if not isinstance(ratio, int | float) or not 0 <= ratio < 1:
            raise ConversationError(
                f"min_reduction_ratio is {ratio!r}.",
                remedy="Give the share to save: at least 0 and less than 1.",
            )

    @property
    def enabled_stages(self) -> list[Stage]:
        """The stages that run, in their order."""
        enabled = {
            "tool_truncation": self.tool_truncation.enabled,
            "summarization": self.summarization.enabled,
            "backward_packing": self.backward_packing.enabled,
        }
        return [
            stage
            for stage in self.processor_order
            if enabled[stage] and stage not in self.excluded_processors
        ]


@dataclass
class ManagedMemoryConfig:
    """When to compact, and how. Without a `token_counter`, tokens are estimated from the text.

    All defaults in this module are those of the reference.
    """

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
        """Refuse impossible values in this configuration and its parts.

        Raises:
            ConversationError: A number is out of range, or a name is unknown.
        """
        _check_type(ActiveContextPolicyConfig, active_context=self.active_context)
        self.active_context.check()
        _check_minimum(1, threshold_tokens=self.threshold_tokens)
        _check_minimum(0, image_token_estimate=self.image_token_estimate)
        if unknown := {*self.trigger_events, *self.cache_invalidation_events} - {*EVENTS}:
            raise ConversationError(f"{min(unknown)!r} is not an event.", remedy=_choices(EVENTS))

    @property
    def compaction_target_tokens(self) -> int:
        """The number of tokens that a compaction reduces the conversation to."""
        return round(self.threshold_tokens * (1 - self.active_context.min_reduction_ratio))
