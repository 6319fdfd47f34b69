"""A package, so that its browser ends with its last test: no other loop can run beside it."""
