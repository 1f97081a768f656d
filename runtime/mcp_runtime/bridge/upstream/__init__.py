"""The server behind a bridge: how it is reached, opened, shared and restarted."""
