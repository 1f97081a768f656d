"""Validate values against untrusted JSON Schemas, in bounded time."""
