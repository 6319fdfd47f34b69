"""Backups of every ledger, in generations of a folder, and their restoration."""
