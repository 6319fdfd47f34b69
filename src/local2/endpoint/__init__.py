"""HTTP endpoints of models: addresses, keys, clients, and the handling of failures."""
