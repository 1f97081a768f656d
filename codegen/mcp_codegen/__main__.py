"""`python -m mcp_codegen`: the same as the command `mcp-codegen`."""

from .cli import main

main()
