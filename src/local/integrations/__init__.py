"""Adapters: they answer a framework's calls of its store from the memory, over the bus.

Each is a module of its own, and the only one to import its framework, an optional extra.
"""
