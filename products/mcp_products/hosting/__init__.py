"""ASGI servers that run an endpoint: uvicorn with limits of connections, hypercorn and granian."""
