"""A bridge: relay JSON-RPC messages between any client and any server, whatever revision and transport either has."""
