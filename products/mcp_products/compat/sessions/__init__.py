"""Sessions and clients over streams of messages."""
