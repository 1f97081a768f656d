"""One connection, run by asyncio: requests both ways, each with its own deadline."""
