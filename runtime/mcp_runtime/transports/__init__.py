"""The transports: stdio, Streamable HTTP, and in memory."""
