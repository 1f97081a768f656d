"""Introspection of functions: docstrings, and type hints that pydantic can read."""
