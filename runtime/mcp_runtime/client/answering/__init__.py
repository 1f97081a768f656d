"""How a client answers requests of the server: input requests, their rate limits, and the order of log messages."""
