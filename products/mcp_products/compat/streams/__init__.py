"""Streams of messages between transports and sessions."""
