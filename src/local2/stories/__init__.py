"""Scripted conversations in YAML, played against a live stack, with what steps must bring."""
