"""The server side of a connection: handlers, contexts, subscriptions and multi round-trip requests."""
