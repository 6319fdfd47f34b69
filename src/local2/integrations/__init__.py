"""Adapters that implement the storage interfaces of frameworks with the memory, over the bus.

Each adapter's modules are the only ones that import its framework, which is an optional extra.
"""
