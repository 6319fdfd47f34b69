"""Adapters: what frameworks call a store, a session or a memory, over the bus; a module each."""
