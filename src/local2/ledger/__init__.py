"""The ledger: stores every memory on disk.

The modules here are its types and rules, in the vocabulary of the memory. `sqlite` has its
operations, and alone deals with connections, rows and SQL.
"""
