"""The client side of HTTP: the Streamable HTTP transport, and the HTTP+SSE transport of 2024 as its fallback."""
