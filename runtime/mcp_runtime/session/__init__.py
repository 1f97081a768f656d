"""Sessions: one connection with asyncio, over any transport, with requests in both directions."""
