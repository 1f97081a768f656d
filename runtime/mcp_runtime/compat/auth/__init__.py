"""The names of the official SDK for OAuth: adapters of `mcp_generated.auth`."""
