"""What one conversation holds, and what of it a model is given (docs/conversation.md).

`message` and `conversation` come first; `managed` keeps a conversation within its budget of tokens.
"""
