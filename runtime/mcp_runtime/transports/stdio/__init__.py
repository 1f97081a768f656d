"""The stdio transport: newline-delimited JSON over pipes."""
