"""The HTTP+SSE transport of 2024, for peers that know no other."""
