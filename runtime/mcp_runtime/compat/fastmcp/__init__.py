"""Names of FastMCP that are no names of the official SDK."""
