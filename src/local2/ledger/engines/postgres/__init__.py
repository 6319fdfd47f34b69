"""PostgreSQL, from version 16 on: any number of stacks write one ledger at the same time."""
