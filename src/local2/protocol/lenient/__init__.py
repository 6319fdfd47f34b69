"""Read what other agents, tools and model APIs send, in whatever form they send it.

`values` reads single values, for all others: `calls` (tool calls), `messages` (of conversations),
`responses` (of model APIs), `turns` (also queries and ratings), `tools` (announcements, results).
Where a message can be used without a part that is unreadable, the part is left out and named.
"""
