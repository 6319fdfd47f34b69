"""NATS: connections, participants and tool hosts, JetStream's streams, the server, the lease."""
