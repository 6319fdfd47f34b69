"""One conversation's messages, and the part of them that a model sees (docs/conversation.md).

Start with `message` and `conversation`; `managed` keeps a conversation within a token budget.
"""
