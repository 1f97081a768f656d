"""The decorator API: servers made from functions with type hints."""
