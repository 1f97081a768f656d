"""The hosts that start servers: where their configuration is, and how an entry of it looks."""
