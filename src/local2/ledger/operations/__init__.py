"""The operations of a ledger, and what they share."""
