"""The names of `mcp_generated.compat` whose classes have another name, for type checkers."""
