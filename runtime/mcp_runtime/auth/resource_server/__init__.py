"""Requests with tokens go in; whose they are, or the challenge that turns them away, comes out."""
