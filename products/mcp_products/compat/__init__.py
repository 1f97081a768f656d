"""The names of the official Python SDK, for programs that were written for it: thin adapters of what this package has.

`mcp_generated.compat` exports them, bound to the types of the revisions. Where each of them is defined stands in the
table `compat` of `codegen/mcp_codegen/render/facade.toml`.
"""
