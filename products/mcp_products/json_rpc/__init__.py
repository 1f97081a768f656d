"""Peers of other JSON-RPC 2.0 protocols over stdio, for bindings that `mcp-codegen protocol` generates."""
