"""Requests to an upstream over HTTP/1.1, read by httptools; httpx2 sends what needs more than that."""
