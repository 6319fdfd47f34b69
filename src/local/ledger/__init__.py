"""The ledger: every memory, durable; its operations are named in the memory's words.

How it stores them, `sqlite` knows: nobody else sees a connection, a row or SQL. Another ledger is
another folder beside it, of the same file names, that passes the tests in `tests/ledger`.
"""
