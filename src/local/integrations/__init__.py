"""Adapters: what frameworks for agents ask of a store, asked of the memory over the bus.

Each is a module of its own, and the only one to import its framework, an optional extra.
"""
