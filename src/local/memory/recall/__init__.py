"""Recall: from a question to what answers it."""
