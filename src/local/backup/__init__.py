"""Copies of every ledger, in generations of a folder, and how one of them comes back."""
