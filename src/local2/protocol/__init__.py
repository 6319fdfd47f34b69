"""What is said on the bus: subjects, envelopes, payloads, and the declared tools and services."""
