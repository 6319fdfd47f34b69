"""The content of one conversation, and what a model sees of it (docs/conversation.md).

`message` and `conversation` come first; `managed` keeps a conversation within its budget of tokens.
"""
