"""The OAuth 2.1 authorization server: register clients, ask users for consent, and issue tokens for MCP servers."""
