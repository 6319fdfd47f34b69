"""The databases that can hold a ledger."""
