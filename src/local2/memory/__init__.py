"""Decides what becomes a memory, what a caller finds, and what changes or is erased later.

`tenant.py` has the memory of a tenant, and `service.py` that memory as one caller sees it.
"""
