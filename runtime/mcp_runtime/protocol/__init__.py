"""The protocol without I/O: bytes in, events out."""
