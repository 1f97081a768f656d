"""`python -m mcp_codegen`: the same command line as `mcp-codegen`."""

from .entry import main

main()
