"""Building blocks for asyncio that do not depend on MCP."""
