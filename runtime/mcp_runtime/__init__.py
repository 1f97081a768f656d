"""The core under the generated bindings: the protocol, its transports, servers and clients of all revisions.

Programs import from `mcp_generated`; ARCHITECTURE.md says what stands in which folder.
"""
