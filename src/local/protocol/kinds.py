"""What kinds of memories there are, whose they are, and where they come from."""

from typing import Literal

Kind = Literal["chat_message", "tool_output", "transcript", "document_chunk", "fact", "episode"]
"""`transcript`: what stands in its place in a conversation unsearched, as instructions."""
SourceKind = Literal["chat_message", "tool_output", "document_chunk", "fact"]
"""Those that `recall` finds."""
Owning = Literal["session", "user", "agent", "tenant"]
"""Whose a record is: of one of the owner's sessions, the owner's own, an agent's, everybody's."""
Scope = Literal["session", "history", "user", "agent", "tenant", "any"]
"""What a search may find: this session, the user's earlier ones, or what is whose."""
By = Literal["self", "other"]
"""Who stated it: the user who asks, or anybody else."""
SourceClass = Literal["user", "assistant", "tool", "document", "system"]
