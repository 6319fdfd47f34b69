"""The ledger: stores every memory on disk.

The modules here are its types and rules, in the vocabulary of the memory. `operations`
has its operations, `sql` their statements, and `engines` the databases: they alone deal with
connections, rows and SQL.
"""
