"""A conversation of which a model sees only as much as fits a token budget.

A compaction may call a model, so it is awaited, while the methods of a conversation are synchronous
and return at once. Hence there are three views of one conversation: the history, which stays
complete; the context, which compactions shorten; and the window, the part of an oversized context
that is returned until it is compacted.
"""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from functools import partial
from typing import Any

from local2.conversation.compaction import (
    MemoryState,
    Pipeline,
    ProcessStrategy,
    RetrievalStrategy,
    Threshold,
    TriggerStrategy,
    WholeContext,
    payload_bytes,
    recover_from_refusal,
)
from local2.conversation.config import ManagedMemoryConfig
from local2.conversation.context import Cache, CacheStats, Context, estimate
from local2.conversation.conversation import ConversationMemory, Snapshot, last
from local2.conversation.events import CompactionProgress
from local2.conversation.fitting import limit_tokens, pack_rounds
from local2.conversation.message import Message
from local2.conversation.stages import Compaction, CompactionRuntime, StageInput
from local2.protocol.payloads import Json

CACHE_KEEPING_EVENTS = ("add", "remove_by_id", "delete_memory", "get_messages")
"""Events after which the configuration may keep the cache. Every other event invalidates it."""


class ManagedConversationMemory(ConversationMemory):
    """A conversation whose history stays complete and whose context is compacted.

    Synchronous methods only mark a compaction as due; `compact_if_needed` runs it. Until then,
    `get_messages` leaves out what exceeds `threshold_tokens`, while the context keeps it for the
    compaction. The mode `sliding_window` needs no compaction: `get_messages` removes old rounds
    from the context for good.
    """

    def __init__(
        self,
        config: ManagedMemoryConfig | None = None,
        trigger_strategy: TriggerStrategy | None = None,
        process_strategy: ProcessStrategy | None = None,
        retrieval_strategy: RetrievalStrategy | None = None,
        description: str | None = None,
    ) -> None:
        self.config = config or ManagedMemoryConfig()
        self.config.check()
        self._count = self.config.token_counter or partial(
            estimate, image_tokens=self.config.image_token_estimate
        )
        self._trigger = trigger_strategy or Threshold()
        self._process = process_strategy or Pipeline()
        self._retrieval = retrieval_strategy or WholeContext()
        self._context = Context(self._count)
        self._window: Context | None = None
        """The part of the context that is returned while the context exceeds the limit."""
        self._cache = Cache()
        self._due = False
        self._revision = 0
        """Counts the changes that are not additions, so that a compaction can detect them."""
        self._compacting = asyncio.Lock()
        super().__init__(description)

    @property
    def context(self) -> Sequence[Message]:
        """The messages from which the retrieval strategy chooses those that a model sees."""
        return self._context.messages

    @property
    def tokens(self) -> int:
        """The number of tokens in the context."""
        return self._context.tokens

    def get_messages(self) -> list[Json]:
        """The messages for a model: at most `threshold_tokens`, if the policy is enabled."""
        self._on_change("get_messages")
        policy = self.config.active_context
        if self._due and policy.enabled and policy.mode == "sliding_window":
            target = self.config.compaction_target_tokens
            self._replace_context(pack_rounds(self._context.messages, target, self._context.count))
        self._update_window()
        return self._cache.get(lambda: [message.to_llm_dict() for message in self._retrieved()])

    def _update_window(self) -> None:
        """Update the window from the previous one, so that a long history is fitted only once."""
        shown = self._shown
        if self._exceeds_limit(shown.tokens):
            self._window = Context(self._count)
            self._window.replace_all(limit_tokens(shown.messages, self.config, shown.count))
            self._cache.invalidate()

    @property
    def _shown(self) -> Context:
        return self._context if self._window is None else self._window

    def _retrieved(self) -> Sequence[Message]:
        if isinstance(self._retrieval, WholeContext):
            return self._shown.messages
        chosen = self._retrieval.retrieve(self._context.messages, self._job(None))
        if self._exceeds_limit(sum(map(self._count, chosen))):
            return limit_tokens(chosen, self.config, self._count)
        return chosen

    def _payload_bytes(self) -> int:
        self._update_window()
        return payload_bytes(self._retrieved())

    def _exceeds_limit(self, tokens: int) -> bool:
        return self.config.active_context.enabled and tokens > self.config.threshold_tokens

    def retrieve_all(self) -> list[Json]:
        """The same as `get_messages`; `get_raw_messages` returns the full history."""
        return self.get_messages()

    def retrieve_recent(self, n: int = 1) -> list[Json]:
        """The last `n` of `get_messages`, in their order."""
        return list(last(self.get_messages(), n))

    def retrieve_by_role(self, role: str, n: int | None = None) -> list[Json]:
        """The messages of a role in `get_messages`, or the last `n`, in their order."""
        found = [message for message in self.get_messages() if message["role"] == role]
        return list(last(found, n))

    def get_raw_messages(self) -> list[Message]:
        """The full history, which compactions do not change."""
        return list(self.messages)

    def get_cache_stats(self) -> CacheStats:
        self._update_window()
        return CacheStats(
            valid=self._cache.valid,
            hits=self._cache.hits,
            misses=self._cache.misses,
            cached_messages=len(self._cache),
            context_messages=len(self._context),
            raw_messages=len(self),
            tokens=self._context.tokens,
            handed_out_tokens=sum(map(self._count, self._retrieved())),
            compaction_due=self._due,
        )

    def recount(self) -> None:
        """Count the context's tokens again after the counter has learned."""
        self._context.recount()
        self._window = None
        self._after_event("recount")

    async def compact_if_needed(self, runtime: CompactionRuntime | None = None) -> bool:
        """Compact the context if a trigger has made that due; return whether it became smaller.

        Messages added meanwhile stay unchanged at the end. If anything else changes meanwhile, the
        result is dropped, because a summary might contain what was just removed.
        """
        async with self._compacting:
            policy = self.config.active_context
            if not (self._due and policy.enabled and policy.mode == "compaction"):
                return False
            return await self._compact(self._process.process, runtime)

    async def compact_for_payload_error(self, runtime: CompactionRuntime | None = None) -> bool:
        """Make the context smaller in bytes after a request was refused as too large.

        The newest rounds stay as they are. Earlier messages are summarised, and only the newest of
        their images stay. Returns whether the serialised messages for a model became smaller: while
        these leave out what exceeds the limit, a shorter context alone saves nothing.
        """
        async with self._compacting:
            policy = self.config.active_context
            if not policy.enabled or "summarization" not in policy.enabled_stages:
                return False
            refused = self._payload_bytes()
            compacted = await self._compact(recover_from_refusal, runtime)
            return compacted and self._payload_bytes() < refused

    async def _compact(
        self,
        process: Callable[[Sequence[Message], StageInput], Awaitable[Compaction]],
        runtime: CompactionRuntime | None,
    ) -> bool:
        before, revision = self._context.messages, self._revision
        progress = CompactionProgress(self.event_context, tokens=self.tokens, messages=len(before))
        try:
            compacted = await process(before, self._job(runtime))
        except BaseException:
            progress.failed()
            raise
        if revision != self._revision or not compacted.stages:
            progress.failed()
            return False
        added = self._context.messages[len(before) :]
        self._replace_context([*compacted.messages, *added])
        progress.completed(tokens=self.tokens, messages=len(self._context), stages=compacted.stages)
        return True

    def _job(self, runtime: CompactionRuntime | None) -> StageInput:
        return StageInput(
            config=self.config, count=self._count, runtime=runtime or CompactionRuntime()
        )

    def _replace_context(self, messages: Sequence[Message]) -> None:
        self._context.replace_all(messages)
        self._window = None
        self._revision += 1
        self._after_event("compaction")

    def snapshot(self) -> Snapshot:
        messages, context = list(self.messages), self._context.messages
        return Snapshot(messages=messages, context=None if context == messages else context)

    def restore(self, snapshot: Snapshot) -> None:
        context = snapshot.messages if snapshot.context is None else snapshot.context
        self._context.replace_all(context)
        super().restore(snapshot)

    def replace_memory(self, idx: int, message: Message | None = None, **fields: Any) -> None:
        old = self._at(idx)
        super().replace_memory(idx, message, **fields)
        self._context.replace(old.message_id, self._at(idx))
        self._after_event("replace_memory")

    def _on_change(self, event: str, message: Message | None = None) -> None:
        """Apply a change of the history to the context, if the context still has the message."""
        if event not in {"add", "get_messages"}:
            self._revision += 1
            self._window = None
        if event == "reset_memory":
            self._context.replace_all(self.messages)
        elif message and event in {"remove_by_id", "delete_memory"}:
            self._context.remove(message.message_id)
        elif message and event == "update":
            self._context.replace(message.message_id, message)
        elif message and event == "add":
            self._context.append(message)
            if self._window is not None:
                self._window.append(message, self._context.count(message))
            if isinstance(self._retrieval, WholeContext):
                self._cache.append(message)
            else:
                self._cache.invalidate()
        self._after_event(event)

    def _after_event(self, event: str) -> None:
        """Invalidate the cache if necessary, and let the trigger decide about a compaction."""
        if event in self.config.cache_invalidation_events or event not in CACHE_KEEPING_EVENTS:
            self._cache.invalidate()
        if self._due or event in self.config.trigger_events:
            state = MemoryState(event=event, tokens=self.tokens, messages=len(self._context))
            self._due = self._trigger.is_due(state, self.config)
