"""mcp-codegen: generates typed Python bindings from the official schemas of the Model Context Protocol."""
