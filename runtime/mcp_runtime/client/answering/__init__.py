"""How a client answers requests of the server: their rate limits, and the order of log messages."""
