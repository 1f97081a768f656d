"""Run a server or a client that was written for one protocol version in another."""
