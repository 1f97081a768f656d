"""`python -m mcp_codegen`: the same as the command `mcp-codegen`."""

from .cli.main import main

main()
