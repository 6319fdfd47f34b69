"""How the context of a conversation is made smaller, without splitting a round.

`strategies` runs the stages; `fitting` cuts without a model; `summarization` replaces old messages
by the text that `summaries` makes of them.
"""
