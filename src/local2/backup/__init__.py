"""Backs up all ledgers, as generations in a folder, and restores them."""
