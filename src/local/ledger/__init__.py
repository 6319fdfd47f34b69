"""The ledger: every memory, on disk; its operations are named in the memory's words.

Only `sqlite` sees a connection, a row or SQL. Another ledger would be another folder beside it,
with the same file names, that passes the tests in `tests/ledger`.
"""
