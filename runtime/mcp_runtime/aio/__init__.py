"""Building blocks for asyncio that know nothing of MCP."""
