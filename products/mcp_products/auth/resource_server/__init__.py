"""The OAuth resource server: check the access tokens of requests to a protected MCP server."""
