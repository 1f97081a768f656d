"""The server side of HTTP: an ASGI application for Streamable HTTP and the HTTP+SSE transport of 2024."""
