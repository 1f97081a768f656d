"""`python -m mcp_codegen`: the same command line as `mcp-codegen`."""

from .cli.main import main

main()
