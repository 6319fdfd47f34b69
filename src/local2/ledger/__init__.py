"""The ledger: stores every memory on disk.

Its operations use the vocabulary of the memory; only `sqlite` deals with connections, rows and SQL.
Another ledger would be another folder beside it, with the same file names, that passes the tests in
`tests/ledger`.
"""
