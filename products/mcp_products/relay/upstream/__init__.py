"""The server behind a relay: how it is reached, opened, shared and asked."""
