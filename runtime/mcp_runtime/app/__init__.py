"""Functions with type hints go in, a server comes out: the decorator face."""
