"""Requests that pass without a task of their own: what the client and the upstream say in the same protocol version."""
