"""Worker threads for synchronous functions."""
