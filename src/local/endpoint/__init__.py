"""HTTP endpoints of models: where they are, with which key, and how failures are handled."""
