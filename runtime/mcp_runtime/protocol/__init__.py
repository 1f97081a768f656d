"""The protocol without I/O: JSON-RPC messages, revisions, capabilities, phases, and a sans-I/O connection."""
