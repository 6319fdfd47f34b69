"""HTTP endpoints of models: where they are, with which key, and what becomes of failures."""
