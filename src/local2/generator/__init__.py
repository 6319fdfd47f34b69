"""The agent that answers queries with a chat model and the tools on the bus.

`agent` receives a query, `session` holds its conversation, and `turn` produces the answer.
"""
