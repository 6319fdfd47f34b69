"""The answers of the memory's tools, which `protocol/memory_tools.py` declares."""
