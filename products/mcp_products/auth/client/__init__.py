"""The OAuth 2.1 client: get tokens for requests to a protected MCP server."""
