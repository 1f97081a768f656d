"""Functions as tools: a server made of functions with type hints."""
