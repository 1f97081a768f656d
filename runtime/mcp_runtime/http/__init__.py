"""The HTTP rules of MCP without I/O: headers, origins, request heads, URLs, and the rules of client and server."""
