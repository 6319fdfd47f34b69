"""HTTP for every language: each tool and service of the memory under a path, and its events.

It is a front end in a process of its own, which uses the bus for everything.
"""
